"""`make ui`: the Prefect server with its pages, the pipeline's deployments, and the reports, on this machine.

Everything listens on 127.0.0.1. The server's records are in `.rlhf/prefect.db`, where runs from the
command line are too, and those find this server while it runs. Ctrl-C ends all of it. For a server
elsewhere and workers see prefect.yaml and docs/prefect.md.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from rlhf_pipeline import errors, paths, process
from rlhf_pipeline.errors import EnvironmentProblem
from rlhf_pipeline.publish import write_text

from . import server

NIGHTLY = "0 2 * * *"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m flows.serve", description=__doc__)
    parser.add_argument("--port", type=int, default=4200, help="of the Prefect server (default 4200)")
    port = parser.parse_args().port
    if server.running_ui() is not None:
        raise EnvironmentProblem(f"`make ui` already runs in this workspace: {server.running_ui()}")
    with prefect_server(port) as url, report_pages() as reports:
        os.environ[server.API_URL] = f"{url}/api"
        print(f"Prefect: {url}\nReports: {reports}/reports/report.html\nCtrl-C ends both.", flush=True)
        serve_deployments()
    return 0


@contextlib.contextmanager
def prefect_server(port: int) -> Iterator[str]:
    """Run `prefect server start`; yields its address once it answers.

    Raises:
        EnvironmentProblem: the port is in use, or the server does not come up.
    """
    server.quiet()
    server.require_free(port, "--port")
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    env = {**server.database(), "PREFECT_UI_API_URL": f"{url}/api", server.API_URL: f"{url}/api"}
    log = paths.workspace() / paths.LOGS / "prefect-ui.log"
    with process.running(command, log=log, env=env, name="Prefect server") as child:
        server.Embedded(child, f"{url}/api").wait_until_ready()
        server.announce_ui(f"{url}/api")
        try:
            yield url
        finally:
            (paths.workspace() / server.UI_FILE).unlink(missing_ok=True)


@contextlib.contextmanager
def report_pages() -> Iterator[str]:
    """Serve the reports of the workspace and of its experiments, and nothing else of it."""
    handler = partial(ReportHandler, directory=str(paths.workspace()))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        url = f"http://127.0.0.1:{pages.server_port}"
        announced = paths.workspace() / server.REPORTS_FILE
        write_text(announced, url)
        threading.Thread(target=pages.serve_forever, name="reports", daemon=True).start()
        try:
            yield url
        finally:
            announced.unlink(missing_ok=True)
            pages.shutdown()


class ReportHandler(http.server.SimpleHTTPRequestHandler):
    """Files below reports/ only."""

    def translate_path(self, path: str) -> str:
        found = super().translate_path(path)
        inside = os.path.relpath(os.path.realpath(found), self.directory).split(os.sep)
        own = inside[:1] == ["reports"]
        experiment = inside[:2] == [".rlhf", "experiments"] and inside[3:4] == ["reports"]
        return found if own or experiment else os.path.join(self.directory, "reports", "no-such-page")

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing: the terminal is for the runs."""


def serve_deployments() -> None:
    """Register the deployments and run what is asked for, until Ctrl-C."""
    from prefect import serve
    from prefect.deployments.runner import EntrypointType

    from .evaluate import evaluate
    from .notify import SCHEDULED
    from .pipeline import train
    from .reconcile import reconcile
    from .rollback import rollback

    for line in reconcile():
        print(line, flush=True)
    by_module = {"entrypoint_type": EntrypointType.MODULE_PATH}
    on = nightly_is_on()
    serve(
        train.to_deployment("pipeline", description="Data to released policy", **by_module),  # type: ignore[arg-type]
        train.to_deployment(
            "nightly",
            cron=NIGHTLY,
            paused=not on,
            tags=[SCHEDULED],
            description="The same every night at 2; off until you turn it on",
            **by_module,  # type: ignore[arg-type]
        ),
        rollback.to_deployment("policy", description="Back to an earlier policy", **by_module),  # type: ignore[arg-type]
        evaluate.to_deployment("policies", description="One policy against another", **by_module),  # type: ignore[arg-type]
        pause_on_shutdown=False,
        print_starting_message=False,
    )


def nightly_is_on() -> bool:
    """Whether someone turned the nightly schedule on before; starting again must not turn it off."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    with get_client(sync_client=True) as client:
        try:
            deployment = client.read_deployment_by_name("train/nightly")
        except ObjectNotFound:
            return False
    return not deployment.paused and any(schedule.active for schedule in deployment.schedules)


if __name__ == "__main__":
    sys.exit(errors.main(main))
