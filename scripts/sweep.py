"""`make sweep SWEEP=kl`: runs presets/sweeps/kl.yaml through DVC's queue and compares what came out.

Each run gets a workspace of DVC's own, so the files here stay as they are, and a stage that the change
does not touch comes from the cache. All values are checked before the first run starts. What is compared
and how the intervals are made is rlhf_pipeline.compare's.
"""

from __future__ import annotations

import itertools
import json
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
    require_commit()
    for experiment, run in runs.items():
        dvc("exp", "remove", experiment, check=False)
        settings = [f"-S{key}={json.dumps(value)}" for key, value in run.items()]
        dvc("exp", "run", "--queue", "--name", experiment, *settings)
    try:
        dvc("exp", "run", "--run-all", "--jobs", "1")
    except KeyboardInterrupt:
        # DVC's worker would go on by itself.
        dvc("queue", "stop", "--kill", check=False)
        raise
    found = compare.read_runs(list(runs), paths.SFT_MODEL)
    print(compare.table(found))
    html = paths.REPORTS / f"sweep-{name}.html"
    publish.write_text(html, page([(run.name, compare.axes(run, found)) for run in found]))
    print(f"\n{verdict(found)}\nparallel coordinates: {html}")


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


def require_commit() -> None:
    """DVC keeps experiments as git refs beside the newest commit.

    Raises:
        EnvironmentProblem: outside git, or before the first commit.
    """
    done = subprocess.run(["git", "rev-parse", "--verify", "HEAD"], capture_output=True, check=False)
    if done.returncode:
        raise errors.EnvironmentProblem(
            "experiments are kept in git, and there is no commit here: clone or commit"
        )


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
