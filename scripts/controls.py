"""`make demo-controls`: the demo with other seeds and with what it learns from taken away, as one table.

Each run is a DVC experiment in a workspace of its own (`dvc exp run --temp`), so stages that do not
depend on the change are taken from the cache, the files of the workspace stay as they are, and
`dvc exp show` lists the runs afterwards. The demo itself, `make demo`, is the first row and must
have run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from rlhf_pipeline import errors, paths
from rlhf_pipeline.params import Params, load

COLUMNS = (
    "pair_accuracy",
    "gold_sft",
    "gold_policy",
    "win_rate",
    "kl_per_token",
    # The best step by gold is what gets published: these show a run that only got worse.
    "validation_score_first",
    "validation_score_last",
)


def main() -> None:
    """Run every control and print the table.

    Raises:
        StageError: the demo has not run, or a control failed.
    """
    if not paths.metrics("evaluate").exists():
        raise errors.StageError(f"{paths.metrics('evaluate')} is not there: run `make demo` first")
    rows = {"demo": metrics_of(None)}
    for name, settings in controls(load()).items():
        experiment = f"control-{name.replace(' ', '-')}"
        dvc("exp", "remove", experiment, check=False)
        dvc(
            "exp",
            "run",
            "--temp",
            "--name",
            experiment,
            *(f"-S{key}={value}" for key, value in settings.items()),
        )
        rows[name] = metrics_of(experiment)
    print(table(rows))


def controls(params: Params) -> dict[str, dict[str, Any]]:
    """Name of each run -> the params it changes."""
    return {
        f"seed {params.seed + 1}": {"seed": params.seed + 1},
        f"seed {params.seed + 2}": {"seed": params.seed + 2},
        "shuffled labels": {"reward_model.shuffle_labels": "true"},
        "no KL": {
            "ppo.kl.reward.coef": 0.0,
            "ppo.kl.reward.controller": "fixed",
            "ppo.kl.loss.coef": 0.0,
        },
    }


def dvc(*arguments: str, check: bool = True) -> None:
    """Run one dvc command with its output on the terminal.

    Raises:
        StageError: when it fails and `check` is set.
    """
    command = [sys.executable, "-m", "dvc", *arguments]
    if check:
        print("$ dvc", *arguments, flush=True)
    done = subprocess.run(command, check=False, stderr=None if check else subprocess.DEVNULL)
    if check and done.returncode:
        raise errors.StageError(f"dvc {' '.join(arguments)} ended with exit code {done.returncode}")


def metrics_of(experiment: str | None) -> dict[str, float]:
    """The figures of PPO and of the evaluation, in the workspace (None) or an experiment."""
    from dvc.api import metrics_show

    files = (str(paths.metrics(stage)) for stage in ("ppo", "evaluate"))
    return {name: value for file in files for name, value in metrics_show(file, rev=experiment).items()}


def table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """A Markdown table; a value with an interval shows it in brackets."""
    lines = [("run", *COLUMNS), ("---",) * (1 + len(COLUMNS))]
    lines += [(name, *(cell(figures, column) for column in COLUMNS)) for name, figures in rows.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(figures: Mapping[str, float], name: str) -> str:
    """`0.71 [0.68, 0.74]`, or the value alone, or a dash."""
    if name not in figures:
        return "-"
    low, high = figures.get(f"{name}_ci_low"), figures.get(f"{name}_ci_high")
    value = f"{figures[name]:.3f}"
    return value if low is None or high is None else f"{value} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    sys.exit(errors.main(main))
