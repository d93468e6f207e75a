"""The dvc commands that the README promises, in a clone without a remote and without a git identity."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest


def dvc(*arguments: str) -> str:
    command = [sys.executable, "-m", "dvc", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_repro_metrics_plots_and_experiments(workspace: Path) -> None:
    dvc("repro")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Data and pipelines are up to date." in dvc("repro")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Processor time, not wall time: the test machine may be busy.
    assert after.ru_utime - before.ru_utime < 3.0

    assert set(json.loads(dvc("metrics", "show", "--json"))[""]["data"]) == {
        f"reports/metrics/{name}.json" for name in ("data", "sft", "reward_model", "judge", "ppo", "evaluate")
    }
    dvc("plots", "show", "-o", "plots")
    page = (workspace / "plots/index.html").read_text()
    for title in ("SFT, cross-entropy per token", "PPO, mean reward-model score", "KL(policy || reference)"):
        assert title in page

    output = dvc("exp", "run", "-S", "ppo.kl.loss.coef=0.07", "--name", "strong-kl")
    assert "Running stage 'ppo':" in output
    assert "Running stage 'sft':" not in output
    assert json.loads((workspace / "reports/metrics/ppo.json").read_text())["kl_loss_coef"] == 0.07
    assert "strong-kl" in dvc("exp", "list")


def test_stages_find_an_environment_that_is_not_activated(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`.venv/bin/dvc` with a bare PATH, in the workspace and in one of DVC's own."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("PYTHONPATH")
    command = [sys.executable, "-m", "dvc", "repro", "base_model"]
    without = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert "no Python with this pipeline's packages: run make setup" in without.stderr
    (workspace / ".venv").symlink_to(sys.prefix)
    dvc("repro", "base_model")
    assert (workspace / "models/base/made.txt").is_file()
    dvc("exp", "run", "--temp", "-S", "seed=3", "-n", "elsewhere", "base_model")
    assert "elsewhere" in dvc("exp", "list")
