"""Runs that are cancelled, killed or left alone by Prefect: nothing stays behind, the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flows.server import free_port

from .cheap import behave, children, in_stage, python
from .prefect_api import Prefect, eventually

GONE_WITHIN_S = 20.0


def dvc_works(workspace: Path) -> bool:
    """Whether DVC's lock is free and the chain goes on where it was."""
    command = [sys.executable, "-m", "dvc", "repro", "-q", "prepare_data"]
    return subprocess.run(command, cwd=workspace).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_signal_to_a_run_leaves_anything_and_prefect_learns_of_it(
    workspace: Path, prefect: Prefect, number: signal.Signals
) -> None:
    behave(workspace, prepare_data={"sleep_s": 300, "daemon_s": 300})
    run = python("-m", "flows.train", "--to-stage", "prepare_data")
    eventually(lambda: in_stage(workspace))
    flow_run = eventually(lambda: [one for one in prefect.flow_runs() if one["state_name"] == "Running"])[0]
    eventually(lambda: prefect.task_states(flow_run) == {"prepare_data": "Running"}, what="task shown")
    run.send_signal(number)
    run.communicate(timeout=120)
    assert run.returncode != 0
    eventually(lambda: not children(workspace), GONE_WITHIN_S, "children gone")
    behave(workspace)
    assert dvc_works(workspace)
    # The next run gives a run that died without a word its end.
    again = python("-m", "flows.train", "--to-stage", "prepare_data")
    output, _ = again.communicate(timeout=300)
    assert again.returncode == 0, output
    ended = prefect.wait(flow_run["id"], "Crashed", "Cancelled", timeout_s=30)
    if number == signal.SIGKILL:
        assert ended["state"]["message"] == f"process {run.pid} is gone; it was at stage prepare_data"
        assert prefect.task_states(ended)["prepare_data"] == "Crashed"


def test_a_run_from_the_command_line_obeys_cancel_in_prefect(workspace: Path, prefect: Prefect) -> None:
    behave(workspace, prepare_data={"sleep_s": 300})
    run = python("-m", "flows.train", "--to-stage", "prepare_data")
    eventually(lambda: in_stage(workspace))
    flow_run = eventually(lambda: [one for one in prefect.flow_runs() if one["state_name"] == "Running"])[0]
    prefect.cancel(flow_run["id"])
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 2
    assert "cancelled in Prefect" in output
    ended = prefect.wait(flow_run["id"], "Cancelled", timeout_s=30)
    assert prefect.task_states(ended)["prepare_data"] == "Cancelled"
    eventually(lambda: not children(workspace), GONE_WITHIN_S, "children gone")


def test_a_second_run_waits_visibly_and_then_runs(workspace: Path, prefect: Prefect) -> None:
    behave(workspace, prepare_data={"sleep_s": 8})
    first = python("-m", "flows.train", "--to-stage", "prepare_data")
    eventually(lambda: in_stage(workspace))
    second = python("-m", "flows.train", "--to-stage", "prepare_data")
    waiting = eventually(lambda: [one for one in prefect.flow_runs() if one["state_name"] == "Waiting"])[0]
    assert "waiting for another run" in waiting["state"]["message"]
    assert first.wait(timeout=300) == 0
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0, output
    ended = prefect.wait(waiting["id"], "Completed", timeout_s=30)
    assert prefect.task_states(ended) == {"prepare_data": "Cached"}


def test_a_killed_server_does_not_stop_training_and_learns_the_end_when_it_is_back(workspace: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    command = ["-m", "uvicorn", "--factory", "prefect.server.api.server:create_app", "--port", str(port)]
    command += ["--log-level", "error"]
    database = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{workspace}/server.db"}
    environment = {**os.environ, **database, "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    prefect = Prefect(url)

    def is_up() -> bool:
        try:
            prefect.flow_runs()
        except OSError:
            return False
        except Exception as error:
            if type(error).__name__ in (
                "ConnectError",
                "RemoteProtocolError",
                "ReadTimeout",
                "ConnectTimeout",
            ):
                return False
            raise
        return True

    server = python(*command, env=environment)
    eventually(is_up, what="server up")
    behave(workspace, prepare_data={"sleep_s": 6})
    run = python(
        "-m", "flows.train", "--to-stage", "prepare_data", env={**os.environ, "PREFECT_API_URL": url}
    )
    eventually(lambda: in_stage(workspace))
    flow_run = eventually(lambda: [one for one in prefect.flow_runs() if one["state_name"] == "Running"])[0]
    server.kill()
    server.wait()
    output, _ = run.communicate(timeout=300)
    assert run.returncode == 0, output
    assert "the Prefect server is gone" in output
    server = python(*command, env=environment)
    try:
        eventually(is_up, what="server up again")
        again = python(
            "-m", "flows.train", "--to-stage", "prepare_data", env={**os.environ, "PREFECT_API_URL": url}
        )
        output, _ = again.communicate(timeout=300)
        assert again.returncode == 0, output
        assert prefect.flow_run(flow_run["id"])["state_name"] == "Completed"
    finally:
        server.kill()
        server.wait()
