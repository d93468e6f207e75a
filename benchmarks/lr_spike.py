"""What the rollback is worth: PPO on the demo task whose learning rates are multiplied by 100 after one step.

    python -m benchmarks.lr_spike [FOLDER]

Three real runs from the same SFT and reward model: without rollback and guards, with the defaults, and with
rollback by the validation score alone. A run that is done is not made again.
FOLDER is a workspace whose reward_model stage is done; left out, a clone is made and the stages are run
(about two minutes on two cores). Prints the table of docs/reliability.md. The fault is put in place by
tests/faults/inject; it is part of the run's state, as a wrong change of a running job would be, so going
back to a step from before it undoes it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from rlhf_pipeline import paths
from rlhf_pipeline.checkpoints.view import LedgerView
from rlhf_pipeline.params_edit import change_params
from rlhf_pipeline.publish import write_json

ROOT = Path(__file__).resolve().parents[1]
INJECT = ROOT / "tests" / "faults" / "inject"
SPIKE_AFTER = 8
RUN: dict[str, Any] = {
    "ppo.total_steps": 24,
    "ppo.validation.every": 4,
    "ppo.validation.n_prompts": 256,
    "tracking.backends": [],
}
GUARDS = (
    "kl",
    "entropy",
    "reward_swing",
    "reward_hacking",
    "explained_variance",
    "grad_norm",
    "response_length",
    "repetition",
)
NO_GUARDS = {"guards.non_finite": "warn", **{f"guards.{guard}.action": "off" for guard in GUARDS}}
RUNS: dict[str, dict[str, Any]] = {
    "without rollback": {"rollback.enabled": False, **NO_GUARDS},
    "with rollback": {},
    "rollback by the score alone": NO_GUARDS,
}


def main() -> int:
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else prepared()
    rows = []
    for name, changes in RUNS.items():
        rows.append({"run": name, **measured(run(folder, name, {**RUN, **changes}))})
    write_json(ROOT / "benchmarks" / "results" / "lr_spike.json", rows)
    for row in rows:
        print(json.dumps(row))
    return 0


def prepared() -> Path:
    """A clone of this repository with its models up to the reward model."""
    folder = Path(tempfile.mkdtemp(prefix="lr-spike-")) / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    command = [sys.executable, "-m", "dvc", "repro", "reward_model", "judge"]
    subprocess.run(command, cwd=folder, env=environment(folder), check=True)
    return folder


def environment(folder: Path, fault: str = "") -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    code = [str(INJECT)] * bool(fault) + [str(ROOT / "src"), str(ROOT)]
    return {
        **os.environ,
        "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(code),
        "RLHF_WORKSPACE": str(folder),
        "RLHF_PYTHON": sys.executable,
        "FAULT": fault,
    }


def run(source: Path, name: str, changes: dict[str, Any]) -> Path:
    """One PPO run in a workspace of its own, with the fault."""
    folder = source.parent / f"{source.name}-{name.replace(' ', '-')}"
    if (folder / paths.metrics("ppo")).exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for part in (paths.VALIDATED, paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE):
        shutil.copytree(source / part, folder / part)
    change_params(source / paths.PARAMS, changes, folder / paths.PARAMS)
    command = [sys.executable, "-m", "stages.ppo"]
    subprocess.run(command, cwd=folder, env=environment(folder, f"lr@{SPIKE_AFTER}"), check=True)
    return folder


def measured(folder: Path) -> dict[str, Any]:
    """What the run's ledger, events and score files say."""
    ledger = LedgerView.read(next((folder / paths.SCRATCH / "ppo").glob("*/ledger")))
    assert ledger is not None
    entries = [entry for entry in ledger.book.entries if entry.state != "rolled_back"]
    entries.sort(key=lambda entry: entry.step)
    best = max(entries, key=lambda entry: entry.score or 0.0)
    last = entries[-1]
    ours, theirs = (by_prompt(ledger, entry) for entry in (last, best))
    difference = np.array([ours[prompt] - theirs[prompt] for prompt in sorted(ours)])
    drawn = np.random.default_rng(0).integers(difference.size, size=(4000, difference.size))
    low, high = np.quantile(difference[drawn].mean(axis=1), [0.025, 0.975])
    rollbacks = [event for event in ledger.events() if event["kind"] == "rollback"]
    return {
        "scores": {entry.step: round(entry.score or 0.0, 3) for entry in entries},
        "best": [best.step, round(best.score or 0.0, 3)],
        "last": [last.step, round(last.score or 0.0, 3)],
        "last_below_best": round(1 - (last.score or 0.0) / (best.score or 1.0), 3),
        "last_minus_best_95": [round(float(low), 3), round(float(high), 3)],
        "rollbacks": [[event["step"], event["to_step"], event["reason"]] for event in rollbacks],
        "steps_after_last_rollback": last.step - rollbacks[-1]["to_step"] if rollbacks else None,
        "finished": ledger.finished,
        "published": json.loads((folder / paths.metrics("ppo")).read_text(encoding="utf-8"))["best_step"],
    }


def by_prompt(ledger: LedgerView, entry: Any) -> dict[str, float]:
    return ledger.files.read_scores(entry.step, entry.rollbacks, entry.scores_sha256)


if __name__ == "__main__":
    sys.exit(main())
