"""A PPO run whose driver is killed goes on from the last committed step, with the same numbers."""

from __future__ import annotations

import csv
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from .conftest import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def curve(folder: Path) -> dict[int, dict[str, str]]:
    with (folder / "reports/curves/ppo.csv").open() as file:
        return {int(row["step"]): row for row in csv.DictReader(file)}


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stages.ppo"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def drivers(folder: Path) -> list[psutil.Process]:
    """The driver's processes (it and its shadow) that work in this workspace."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            supervised = any(word.endswith("supervisor.py") for word in words)
            if "rlhf_pipeline.ppo.driver" in words and not supervised and process.cwd() == str(folder):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


@pytest.fixture(scope="module")
def killed(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the workspace in which PPO was killed after its first committed step, then run again."""
    folder: Path = tmp_path_factory.mktemp("resume") / "copy"
    left_out = shutil.ignore_patterns(".git", ".dvc", "ppo", "policy", "logs", ".rlhf")
    shutil.copytree(run.folder, folder, symlinks=True, ignore=left_out)
    shutil.copytree(run.folder / "src/rlhf_pipeline/ppo", folder / "src/rlhf_pipeline/ppo")
    first = start(folder)
    deadline = time.monotonic() + 600
    while not list(folder.glob(".scratch/ppo/*/ledger/global_step_2/manifest.json")):
        assert first.poll() is None, first.communicate()[0][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for process in drivers(folder):
        process.send_signal(signal.SIGKILL)
    output = first.communicate(timeout=120)[0]
    assert first.returncode == 2, output
    assert "SIGKILL" in output
    assert drivers(folder) == []
    again = start(folder)
    output = again.communicate(timeout=900)[0]
    assert again.returncode == 0, output[-3000:]
    return folder


def test_the_second_start_resumed_from_the_committed_step(killed: Path) -> None:
    events = (killed / "models/policy/events.jsonl").read_text()
    assert '"kind": "resumed", "step": 2' in events


def test_the_steps_after_the_kill_are_those_of_the_run_without_one(run: Any, killed: Path) -> None:
    whole, resumed = curve(run.folder), curve(killed)
    assert list(resumed) == list(whole)
    for step in (3, 4):
        for name in ("reward", "kl", "entropy", "response_tokens", "kl_coef"):
            expected = pytest.approx(float(whole[step][name]), rel=2e-2, abs=2e-3)
            assert float(resumed[step][name]) == expected, (step, name)


def test_an_uncommitted_save_is_no_checkpoint(killed: Path) -> None:
    assert not list(killed.glob(".scratch/ppo/*/ledger/writing/*"))
