"""Judges a reward model on a RewardBench file: `python -m rlhf_pipeline.evaluation.rewardbench FILE`.

Reads both formats, as Parquet, JSON or JSON Lines: version 1 has prompt, chosen, rejected and subset;
in version 2 chosen and rejected are lists, and a row is right when the highest score of all is a chosen
one (its scoring of the Ties subset also asks for margins, which is left out). Files come from the user;
nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import errors, paths, publish
from ..params import load
from .pairs import accuracy_by, correct
from .statistics import Floats, flat, mean_interval
from .table import aligned

# Lambert et al. 2024 (arXiv 2403.13787), table 1.
SECTIONS = {
    "Chat": ["alpacaeval-easy", "alpacaeval-length", "alpacaeval-hard", "mt-bench-easy", "mt-bench-med"],
    "Chat Hard": [
        "mt-bench-hard",
        "llmbar-natural",
        "llmbar-adver-neighbor",
        "llmbar-adver-GPTInst",
        "llmbar-adver-GPTOut",
        "llmbar-adver-manual",
    ],
    "Safety": [
        "refusals-dangerous",
        "refusals-offensive",
        "xstest-should-refuse",
        "xstest-should-respond",
        "donotanswer",
    ],
    "Reasoning": ["math-prm", "hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust"],
}


class Item(NamedTuple):
    """One row: a prompt with its good and bad responses."""

    prompt: str
    chosen: list[str]
    rejected: list[str]
    subset: str


def read_items(path: Path) -> list[Item]:
    """The rows of a file, in order.

    Raises:
        DataError: when the file cannot be read or a row lacks a field, naming the row.
    """
    items = []
    for number, row in enumerate(_rows(path), start=1):
        try:
            item = Item(
                _text(row["prompt"]),
                _texts(row["chosen"]),
                _texts(row["rejected"]),
                str(row.get("subset", "all")),
            )
        except (KeyError, TypeError) as error:
            raise errors.DataError(
                f"{path}, row {number}: needs prompt, chosen and rejected as text (or lists of text): {error}"
            ) from None
        items.append(item)
    if not items:
        raise errors.DataError(f"{path} holds no rows")
    return items


def margins_of(scores: Floats, items: Sequence[Item]) -> Floats:
    """Best chosen score minus best rejected score per item, from scores in the order of `texts_of`."""
    margins, place = [], 0
    for item in items:
        middle = place + len(item.chosen)
        end = middle + len(item.rejected)
        margins.append(scores[place:middle].max() - scores[middle:end].max())
        place = end
    return np.array(margins, dtype=np.float64)


def texts_of(items: Sequence[Item]) -> tuple[list[list[dict[str, str]]], list[str]]:
    """(prompt, response) of every response: an item's chosen ones, then its rejected ones."""
    pairs = [(item.prompt, text) for item in items for text in (*item.chosen, *item.rejected)]
    return [[{"role": "user", "content": prompt}] for prompt, _ in pairs], [text for _, text in pairs]


def section_scores(subsets: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Accuracy of each section whose subsets are all there; math counts as much as all code."""
    found = {}
    for section, names in SECTIONS.items():
        if not all(name in subsets for name in names):
            continue
        weights = {name: subsets[name]["pairs"] for name in names}
        if section == "Reasoning":
            weights["math-prm"] = sum(count for name, count in weights.items() if name != "math-prm")
        total = sum(weights.values())
        found[section] = sum(weights[name] * subsets[name]["accuracy"] for name in names) / total
    return found


def report(items: Sequence[Item], margins: Floats, n_resamples: int, seed: int) -> dict[str, Any]:
    """Accuracy with its interval, by section and by subset."""
    overall = mean_interval(correct(margins), np.arange(len(items)), n_resamples, seed)
    subsets = accuracy_by([item.subset for item in items], margins)
    sections = section_scores(subsets)
    return {**flat("accuracy", overall), "n_rows": len(items), "sections": sections, "subsets": subsets}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the accuracies; write JSON where asked."""
    parser = argparse.ArgumentParser(
        prog="python -m rlhf_pipeline.evaluation.rewardbench", description=__doc__
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--reward-model", type=Path, default=paths.REWARD_MODEL)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    chosen = parser.parse_args(arguments)
    params = load()
    items = read_items(chosen.file)
    from .run import load_judge

    scores, _ = load_judge(params, chosen.reward_model).score_texts(*texts_of(items))
    found = report(items, margins_of(scores, items), params.evaluate.n_bootstrap, params.seed)
    if chosen.out:
        publish.write_json(chosen.out, found)
    ends = f"[{found['accuracy_ci_low']:.3f}, {found['accuracy_ci_high']:.3f}]"
    rows = [("all", f"{found['accuracy']:.3f} {ends}", str(len(items)))]
    rows += [(section, f"{value:.3f}", "") for section, value in found["sections"].items()]
    rows += [
        (f"  {name}", f"{row['accuracy']:.3f}", str(row["pairs"])) for name, row in found["subsets"].items()
    ]
    print(aligned([("", "accuracy", "rows"), *rows]))


def _rows(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise errors.DataError(f"{path} does not exist")
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(pq.read_table(path).to_pylist())
        except pa.ArrowInvalid as error:
            raise errors.DataError(f"{path} is not Parquet: {error}") from None
    text = path.read_text(encoding="utf-8")
    try:
        values = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.splitlines() if line]
        )
    except json.JSONDecodeError as error:
        raise errors.DataError(f"{path} is not JSON: {error}") from None
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise errors.DataError(f"{path} must hold a list of objects")
    return values


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(value: Any) -> list[str]:
    texts = [_text(entry) for entry in value] if isinstance(value, list) else [_text(value)]
    if not texts:
        raise TypeError("an empty list")
    return texts


if __name__ == "__main__":
    sys.exit(errors.main(main))
