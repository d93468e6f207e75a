"""Puts runs side by side with their intervals: `python -m rlhf_pipeline.compare RUN [RUN ...]`.

A RUN is a model folder (compared here with `--against`, on the test prompts, with cached sampling), a
workspace folder, a metrics JSON file, or a git revision or DVC experiment that has been evaluated.
`--html` draws parallel coordinates over the params that differ and the figures; `--json` keeps all.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import errors, paths, publish
from .evaluation.table import aligned, with_interval
from .params import load

COLUMNS = {
    "gold_policy": "gold",
    "judge_policy": "judge",
    "reward_policy": "reward",
    "win_rate": "win rate",
    "win_rate_length_controlled": "at equal length",
    "kl_per_token": "KL per token",
    "response_tokens_policy": "tokens",
    "pair_accuracy": "pair accuracy",
}


class Run(NamedTuple):
    """One evaluated run."""

    name: str
    metrics: dict[str, Any]
    """Flat figures, as in reports/metrics/evaluate.json."""
    params: dict[str, Any]
    """Dotted key -> value of its params.yaml; empty when there is none."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table; write JSON and HTML where asked."""
    chosen = _parser().parse_args(arguments)
    runs = read_runs(chosen.runs, chosen.against)
    print(table(runs))
    if chosen.json:
        publish.write_json(chosen.json, [run._asdict() for run in runs])
    if chosen.html:
        from .report.parallel import page

        publish.write_text(chosen.html, page([(run.name, axes(run, runs)) for run in runs]))
        print(f"parallel coordinates: {chosen.html}")


def read_runs(words: Sequence[str], against: Path) -> list[Run]:
    """The run behind each word of the command line.

    Raises:
        DataError: naming a word that is none of the things a run can be.
    """
    runs = []
    for word in words:
        path = Path(word)
        if (path / "config.json").is_file():
            runs.append(_evaluated(path, against))
        elif path.is_file():
            runs.append(Run(word, _figures(path), {}))
        elif (path / paths.metrics("evaluate")).is_file():
            params = load(path / paths.PARAMS).model_dump(mode="json")
            runs.append(Run(word, _figures(path / paths.metrics("evaluate")), dict(flattened(params))))
        elif path.exists():
            raise errors.DataError(f"{word} holds neither a model nor {paths.metrics('evaluate')}")
        else:
            runs.append(_revision(word))
    return runs


def table(runs: Sequence[Run]) -> str:
    """Runs in rows, figures with intervals and differing params in columns."""
    columns, changed = measured(runs), differing(runs)
    rows = [("", *(COLUMNS[name] for name in columns), *changed)]
    for run in runs:
        cells = [with_interval(run.metrics, name) for name in columns]
        rows.append((run.name, *cells, *(_cell(run.params.get(key)) for key in changed)))
    return aligned(rows)


def differing(runs: Sequence[Run]) -> list[str]:
    """Dotted params keys whose values are not the same in all runs that have params."""
    known = [run.params for run in runs if run.params]
    keys = dict.fromkeys(key for params in known for key in params)
    return [key for key in keys if len({json.dumps(params.get(key)) for params in known}) > 1]


def axes(run: Run, runs: Sequence[Run]) -> dict[str, Any]:
    """What parallel coordinates show of a run: differing params, then figures; None where it has none."""
    params = {key: run.params.get(key) for key in differing(runs)}
    return params | {COLUMNS[name]: run.metrics.get(name) for name in measured(runs)}


def measured(runs: Sequence[Run]) -> list[str]:
    """The figures of COLUMNS that at least one run has."""
    return [name for name in COLUMNS if any(name in run.metrics for run in runs)]


def flattened(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """(dotted key, value) of every leaf of nested mappings; lists are leaves."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found += flattened(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", value))
    return found


def _evaluated(folder: Path, against: Path) -> Run:
    from .evaluation.run import evaluate, require_inputs

    require_inputs(against, paths.REWARD_MODEL, paths.JUDGE, paths.VALIDATED)
    found = evaluate(load(), folder, against, pairs=False, note=lambda text: print(text, file=sys.stderr))
    return Run(str(folder), found.metrics, {})


def _revision(word: str) -> Run:
    import dvc.api
    from dvc.exceptions import DvcException

    target = str(paths.metrics("evaluate"))
    try:
        # Not metrics_show: it also reads the workspace, which need not have been evaluated.
        metrics = json.loads(dvc.api.read(target, rev=word))
        params = dvc.api.params_show(str(paths.PARAMS), rev=word)
    except DvcException as error:
        raise errors.DataError(
            f"{word} is no folder, no file and no revision or experiment with {target} (not evaluated, or"
            f" `dvc pull` is needed): {error}"
        ) from None
    return Run(word, metrics, dict(flattened(params)))


def _figures(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise errors.DataError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict) or "win_rate" not in value:
        raise errors.DataError(f"{path} holds no figures of an evaluation (win_rate is missing)")
    return value


def _cell(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "" if value is None else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rlhf_pipeline.compare", description=__doc__)
    parser.add_argument(
        "runs", nargs="+", help="model or workspace folder, metrics file, revision, experiment"
    )
    parser.add_argument(
        "--against", type=Path, default=paths.SFT_MODEL, help="what model folders are compared with"
    )
    parser.add_argument("--json", type=Path, help="file for all figures")
    parser.add_argument("--html", type=Path, help="file for the parallel coordinates")
    return parser


if __name__ == "__main__":
    sys.exit(errors.main(main))
