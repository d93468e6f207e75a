"""`make sweep SWEEP=kl`: runs the experiments of presets/sweeps/kl.yaml with DVC and compares them.

One after the other, each in a workspace of DVC's own (`dvc exp run --temp`): the files here stay as they
are, a stage that the change does not touch comes from the cache, and Ctrl-C ends everything, which it
does not with DVC's queue (docs/experiments.md). All values are checked before the first run starts.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlhf_pipeline import compare, errors, paths, publish
from rlhf_pipeline.params import load
from rlhf_pipeline.params.load import read_yaml
from rlhf_pipeline.report.parallel import page

from .controls import dvc

SWEEPS = Path("presets/sweeps")
AUTHOR = {"name": "rlhf-pipeline", "email": "rlhf-pipeline@localhost"}
JUDGES = ("gold_policy", "judge_policy", "win_rate")
"""What the runs are ranked by: the first of these that every run has."""


def main() -> None:
    """Run the sweep and print its table.

    Raises:
        ParamsError: the file is no sweep, or one of its runs has impossible params.
        StageError: a run failed; the others are kept and listed by `dvc exp show`.
    """
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    known = {path.stem: path for path in sorted(SWEEPS.glob("*.yaml"))}
    if name not in known:
        raise errors.ParamsError(f"there is no sweep {name!r} in {SWEEPS}; there are {', '.join(known)}")
    runs = {f"{name}-{number}": run for number, run in enumerate(runs_of(known[name]), start=1)}
    for run in runs.values():
        load(paths.PARAMS, run)
    prepare_git()
    failed = []
    for experiment, run in runs.items():
        dvc("exp", "remove", experiment, check=False)
        settings = [f"-S{key}={json.dumps(value)}" for key, value in run.items()]
        try:
            dvc("exp", "run", "--temp", "--name", experiment, *settings)
        except errors.StageError:
            failed.append(experiment)
    found = compare.read_runs(
        [experiment for experiment in runs if experiment not in failed], paths.SFT_MODEL
    )
    if found:
        html = paths.REPORTS / f"sweep-{name}.html"
        publish.write_text(html, page([(run.name, compare.axes(run, found)) for run in found]))
        print(f"{compare.table(found)}\n\n{verdict(found)}\nparallel coordinates: {html}")
    if failed:
        raise errors.StageError(f"{len(failed)} of {len(runs)} runs failed, see above: {', '.join(failed)}")


def runs_of(file: Path) -> list[dict[str, Any]]:
    """Dotted params keys -> values of each run of a sweep file.

    Raises:
        ParamsError: when it holds neither a `grid` of lists nor a `list` of mappings.
    """
    content = read_yaml(file)
    if len(content) != 1 or not content.keys() <= {"grid", "list"}:
        raise errors.ParamsError(f"{file}: holds {', '.join(content) or 'nothing'}; expected grid or list")
    [(kind, body)] = content.items()
    if kind == "grid" and isinstance(body, dict) and all(isinstance(one, list) for one in body.values()):
        return [dict(zip(body, values, strict=True)) for values in itertools.product(*body.values())]
    if kind == "list" and isinstance(body, list) and body and all(isinstance(one, dict) for one in body):
        return [dict(one) for one in body]
    expected = "key: [values]" if kind == "grid" else "a list of `key: value` mappings"
    raise errors.ParamsError(f"{file}: {kind} must hold {expected}")


def prepare_git() -> None:
    """DVC keeps experiments as commits beside the newest one, so there must be one, and an author.

    Raises:
        EnvironmentProblem: outside git, or before the first commit.
    """
    if not git("rev-parse", "--verify", "HEAD"):
        raise errors.EnvironmentProblem("experiments are kept in git, and nothing is committed here yet")
    for key in ("name", "email"):
        if not git("config", f"user.{key}"):
            print(f"git has no user.{key}: these runs carry {AUTHOR[key]}; `dvc exp apply` will want yours")
            for role in ("AUTHOR", "COMMITTER"):
                os.environ.setdefault(f"GIT_{role}_{key.upper()}", AUTHOR[key])


def git(*arguments: str) -> str:
    """What a git command prints; empty when it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def verdict(runs: Sequence[compare.Run]) -> str:
    """Which run is best by the most independent judge, which cannot be told from it, and how to take it."""
    judge = next(name for name in JUDGES if all(name in run.metrics for run in runs))
    best = max(runs, key=lambda run: float(run.metrics[judge]))
    low = best.metrics[f"{judge}_ci_low"]
    close = [run.name for run in runs if run is not best and run.metrics[f"{judge}_ci_high"] >= low]
    doubt = f"; its interval overlaps that of {', '.join(close)}" if close else ""
    return (
        f"best by {compare.COLUMNS[judge]}: {best.name}{doubt}\n"
        f"take it with `dvc exp apply {best.name}`, see all with `dvc exp show`"
    )


if __name__ == "__main__":
    sys.exit(errors.main(main))
