"""Deployments run by a worker of a process pool, as docs/prefect.md says: `pytest -m long tests/flows`."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cheap import behave, children, in_stage, python
from .prefect_api import Prefect, eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
GONE_WITHIN_S = 20.0


def cli(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "prefect", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def worker(workspace: Path, prefect: Prefect) -> Iterator[subprocess.Popen[str]]:
    cli("work-pool", "create", "rlhf", "--type", "process")
    cli("--no-prompt", "deploy", "--all")
    process = python("-m", "prefect", "worker", "start", "--pool", "rlhf")
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


def test_a_worker_runs_cancels_and_rolls_back(
    workspace: Path, prefect: Prefect, worker: subprocess.Popen[str]
) -> None:
    assert len(prefect.deployments()) == 4
    run = prefect.wait(prefect.create_run("train/pipeline"), "Completed", "Failed", "Crashed")
    assert run["state_name"] == "Completed", run["state"]["message"]
    assert (workspace / "models/promoted").is_symlink()
    back = prefect.wait(prefect.create_run("rollback/policy", version="v9"), "Failed", "RolledBack")
    assert "there is no version 'v9'" in back["state"]["message"]

    behave(workspace, prepare_data={"sleep_s": 300, "daemon_s": 300})
    before = children(workspace)
    asked = prefect.create_run("train/pipeline", overrides={"seed": 1}, experiment="cancelled")
    eventually(lambda: in_stage(workspace / ".rlhf/experiments/cancelled"))
    prefect.cancel(asked)
    prefect.wait(asked, "Cancelled", timeout_s=GONE_WITHIN_S)
    eventually(lambda: set(children(workspace)) <= set(before), GONE_WITHIN_S, "children gone")
    assert worker.poll() is None
