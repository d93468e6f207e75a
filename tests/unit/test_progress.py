"""The lines a stage prints, the bar on a terminal, and the file the flow reads."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline import progress
from rlhf_pipeline.progress import StageProgress, clock, figures


@pytest.fixture(autouse=True)
def _in_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLHF_WORKSPACE", str(tmp_path))


def test_figures_and_clock() -> None:
    assert (
        figures({"reward": 0.31234, "kl": 0.000123, "tokens": 1200.0})
        == "reward 0.312  kl 0.000123  tokens 1200"
    )
    assert clock(65.4) == "1:05"
    assert clock(3725) == "1:02:05"


def test_plain_lines_are_limited_and_the_last_step_is_always_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with StageProgress("ppo", 12) as bar:
        for step in range(1, 13):
            now[0] += 2.0
            bar.update(step, reward=step / 4)
        bar.note("rolled back")
    # Every 2 s a step; lines at least 5 s apart: steps 1, 4, 7, 10, then the last.
    assert capsys.readouterr().out.splitlines() == [
        "ppo: started",
        "ppo: step 1/12  reward 0.25",
        "ppo: step 4/12  reward 1  0:16 left",
        "ppo: step 7/12  reward 1.75  0:10 left",
        "ppo: step 10/12  reward 2.5  0:04 left",
        "ppo: step 12/12  reward 3",
        "ppo: rolled back",
        "ppo: done after 0:24",
    ]


def test_the_file_holds_the_newest_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert progress.read("sft") is None
    with StageProgress("sft", 2) as bar:
        bar.update(1, loss=3.0)
        bar.update(2, loss=float("nan"), tokens_per_s=10.0)
        state = progress.read("sft")
        assert state is not None
        assert (state["state"], state["step"], state["total_steps"]) == ("running", 2, 2)
        assert state["metrics"] == {"tokens_per_s": 10.0}
    assert (progress.read("sft") or {})["state"] == "done"


def test_a_failure_says_where_it_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    def stage() -> None:
        with StageProgress("sft", None) as bar:
            bar.update(3)
            raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        stage()
    assert capsys.readouterr().out.splitlines()[-1] == "sft: stopped at step 3 after 0:00"
    assert (progress.read("sft") or {})["state"] == "stopped"


def test_a_terminal_gets_a_bar() -> None:
    code = (
        "from rlhf_pipeline.progress import StageProgress\n"
        "with StageProgress('sft', 4) as bar:\n"
        "    bar.update(4, loss=1.5)\n"
        "    bar.note('[red]saved')\n"
    )
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", code], stdout=slave, check=True, timeout=30, env=environment)
    os.close(slave)
    output = os.read(master, 65536).decode()
    os.close(master)
    assert "4/4" in output
    assert "loss 1.5" in output
    assert "sft: [red]saved" in output
