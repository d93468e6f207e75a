"""A sweep of real DVC experiments, in a repository without a git identity, over stages that take no time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import params
from rlhf_pipeline.compare import Run
from rlhf_pipeline.errors import ParamsError
from scripts import sweep

from .cheap import behave

GRID = "grid:\n  ppo.kl.loss.coef: [0.02, 0.3]\n"


def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=check, timeout=300
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_runs_that_fail_are_named_and_the_others_compared(workspace: Path) -> None:
    folder = workspace / "presets/sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "two.yaml").write_text(GRID)
    behave(workspace, ppo={"error": "no luck", "only_coef": 0.3})
    subprocess.run(["git", "add", "-f", "behave.json"], check=True)
    done = run("scripts.sweep", "two", check=False)
    assert done.returncode == 2
    assert "1 of 2 runs failed, see above: two-2" in done.stderr
    assert "best by gold: two-1" in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_sweep_runs_compares_and_is_applied(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = workspace / "presets/sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "two.yaml").write_text(GRID)
    before = (workspace / "params.yaml").read_text()
    done = run("scripts.sweep", "two", check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = [line for line in done.stdout.splitlines() if re.match(r"two-\d  ", line)]
    assert [(row.split()[0], row.split()[-1]) for row in rows] == [("two-1", "0.02"), ("two-2", "0.3")]
    assert all("0.500 [0.400, 0.600]" in row for row in rows)
    assert "take it with `dvc exp apply two-" in done.stdout
    assert (workspace / "reports/sweep-two.html").read_text().count('class="run"') == 2
    assert (workspace / "params.yaml").read_text() == before
    assert "git has no user.name" in done.stdout
    for name in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL"):
        monkeypatch.setenv(f"GIT_{name}", "me@example.org")
    run("dvc", "exp", "apply", "two-2")
    assert params.load(workspace / "params.yaml").ppo.kl.loss.coef == 0.3
    assert "Data and pipelines are up to date" in run("dvc", "status").stdout


def test_a_sweep_with_an_impossible_run_starts_nothing(workspace: Path, monkeypatch: Any) -> None:
    folder = workspace / "presets/sweeps"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bad.yaml").write_text("list:\n  - {seed: 8}\n  - {ppo.gamma: 7}\n")
    monkeypatch.setattr(sys, "argv", ["sweep", "bad"])
    with pytest.raises(ParamsError, match=r"ppo\.gamma: .*got 7"):
        sweep.main()
    monkeypatch.setattr(sys, "argv", ["sweep", "none"])
    with pytest.raises(ParamsError, match="no sweep 'none' in presets/sweeps; there are bad"):
        sweep.main()


@pytest.mark.parametrize("text", ["runs: []\n", "grid: [1]\n", "list: {seed: 1}\n", "list: []\n"])
def test_a_file_that_is_no_sweep_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(ParamsError, match=r"x\.yaml: "):
        sweep.runs_of(file)


def test_the_example_is_four_runs() -> None:
    runs = sweep.runs_of(Path(__file__).parents[2] / "presets/sweeps/kl.yaml")
    assert len({tuple(run.values()) for run in runs}) == 4


def test_the_verdict_says_which_runs_cannot_be_told_from_the_best() -> None:
    def one(name: str, gold: float) -> Run:
        ends = {"gold_policy_ci_low": gold - 0.1, "gold_policy_ci_high": gold + 0.1}
        return Run(name, {"gold_policy": gold, **ends}, {})

    text = sweep.verdict([one("a", 0.5), one("b", 0.9), one("c", 0.8)])
    assert text.startswith("best by gold: b; its interval overlaps that of c\n")
    assert "dvc exp apply b" in text
