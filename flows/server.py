"""Which Prefect server a run talks to: the one you name, the one `make ui` runs, or one of its own.

An embedded server lives as long as the run and keeps its records in `.rlhf/prefect.db`, where `make ui`
shows them later. It is started before Prefect's client is imported, so that both load at the same time.
Imports no Prefect.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlhf_pipeline import process
from rlhf_pipeline.errors import EnvironmentProblem
from rlhf_pipeline.orphans import is_same_process, start_ticks
from rlhf_pipeline.paths import LOGS, workspace
from rlhf_pipeline.publish import write_json

API_URL = "PREFECT_API_URL"
START_TIMEOUT_S = 300.0
UI_FILE = Path(".rlhf/ui.json")
REPORTS_FILE = Path(".rlhf/reports_url")
# What one flow needs is events and task states; schedules and automations are for `make ui`.
_IDLE_SERVICES = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "DB_VACUUM",
    "EVENT_LOGGER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TRIGGERS",
)


@contextmanager
def prefect_api() -> Iterator[Embedded | None]:
    """Name the API in this process's environment; yields the embedded server when one was needed.

    Raises:
        EnvironmentProblem: when nothing answers at PREFECT_API_URL.
    """
    quiet()
    if given := os.environ.get(API_URL):
        if not _is_there(given):
            raise EnvironmentProblem(
                f"no Prefect server answers at {API_URL}={given}; start it, or unset the variable to use one"
                " of the run's own"
            )
        yield None
        return
    if _profile_has_api():
        yield None
        return
    url = running_ui()
    if url is not None:
        os.environ[API_URL] = url
        yield None
        return
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"]
    env = {
        **database(),
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
        **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _IDLE_SERVICES},
    }
    log = workspace() / LOGS / "prefect-server.log"
    with process.running(command, log=log, env=env, name="embedded Prefect server") as child:
        os.environ[API_URL] = f"http://127.0.0.1:{port}/api"
        try:
            yield Embedded(child, os.environ[API_URL])
        finally:
            del os.environ[API_URL]


class Embedded:
    """A Prefect server of this run's own."""

    def __init__(self, child: process.Child, url: str) -> None:
        self._child, self.url = child, url

    def wait_until_ready(self) -> None:
        """Block until the server answers.

        Raises:
            EnvironmentProblem: when it ends or does not answer in time.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.url):
            if not self._child.alive:
                raise EnvironmentProblem(f"the embedded Prefect server did not start:\n{self._child.tail()}")
            if time.monotonic() > deadline:
                raise EnvironmentProblem(
                    f"the embedded Prefect server did not answer within {START_TIMEOUT_S:.0f} s;"
                    f" its output is in {self._child.log}"
                )
            time.sleep(0.1)


def quiet() -> None:
    """Settings for every process of ours that loads Prefect: nothing phones home, no call waits long."""
    # Without a network, the server's telemetry alone delays its start by 20 s.
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    # A dead server would hold each call for a minute; what it missed is reconciled at the next start.
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "3")


def database() -> dict[str, str]:
    """The setting that puts Prefect's records into the workspace, unless you chose another place."""
    name = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
    for given in (name, "PREFECT_API_DATABASE_CONNECTION_URL"):
        if os.environ.get(given):
            return {name: os.environ[given]}
    file = workspace() / ".rlhf" / "prefect.db"
    file.parent.mkdir(parents=True, exist_ok=True)
    return {name: f"sqlite+aiosqlite:///{file}", "PREFECT_SERVER_DATABASE_TIMEOUT": "60"}


def announce_ui(url: str) -> None:
    """Let later runs in this workspace find the server that this process runs."""
    pid = os.getpid()
    write_json(workspace() / UI_FILE, {"url": url, "pid": pid, "start_ticks": start_ticks(pid)})


def running_ui() -> str | None:
    """The API address of a living `make ui` in this workspace."""
    try:
        found = json.loads((workspace() / UI_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    alive = is_same_process(found["pid"], found["start_ticks"]) and answers(found["url"])
    return found["url"] if alive else None


def answers(api_url: str) -> bool:
    """Whether a Prefect API is up at this address."""
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def _is_there(api_url: str) -> bool:
    """Whether anything answers; a refusal, of a server that wants a key, is an answer too."""
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=10):
            return True
    except urllib.error.HTTPError:
        return True
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError):
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free(port: int, option: str) -> None:
    """Raise EnvironmentProblem when something listens on the port already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise EnvironmentProblem(f"port {port} is in use; choose another with {option}") from None


def _profile_has_api() -> bool:
    """Whether the active profile of `prefect config` names a server."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    try:
        profiles = tomllib.loads((home / "profiles.toml").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    active = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    return API_URL in profiles.get("profiles", {}).get(active, {})
