"""Reward against KL over several checkpoints: what each unit of distance from the reference bought.

Every checkpoint is compared with the same reference on the same prompts and seeds; the reference is
sampled once. Drawing is the report's and the compare command's matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import paths
from ..params import Params
from .run import Note, evaluate


class Point(NamedTuple):
    """One checkpoint."""

    name: str
    metrics: dict[str, Any]
    """Flat figures against the reference, whose own end in `_sft`."""
    efficient: bool
    """No other checkpoint has at least its score at no more KL."""


def frontier(
    params: Params,
    checkpoints: Mapping[str, Path],
    reference: Path = paths.SFT_MODEL,
    *,
    reward_model: Path = paths.REWARD_MODEL,
    judge: Path | None = paths.JUDGE,
    data: Path = paths.VALIDATED,
    note: Note = lambda text: None,
) -> list[Point]:
    """Evaluate every checkpoint (name -> model folder) and say which are efficient, in the given order.

    Efficiency is judged by the score of the most independent judge there is. A checkpoint whose KL
    cannot be measured (another vocabulary) is never efficient.

    Raises:
        DataError: when a model or table is missing or not what it should be.
    """
    found = {
        name: evaluate(
            params,
            folder,
            reference,
            reward_model=reward_model,
            judge=judge,
            data=data,
            pairs=False,
            note=note,
        ).metrics
        for name, folder in checkpoints.items()
    }
    measured = [
        (metrics["kl_per_token"], metrics[f"{metrics['win_rate_judge']}_policy"])
        if "kl_per_token" in metrics
        else None
        for metrics in found.values()
    ]
    best = efficient([point for point in measured if point is not None])
    marks = iter(best)
    flags = [next(marks) if point is not None else False for point in measured]
    return [Point(name, metrics, flag) for (name, metrics), flag in zip(found.items(), flags, strict=True)]


def efficient(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each (KL, score): whether no other point has score >= at KL <= with one of them strict."""
    return [
        not any(
            other_kl <= kl and other_score >= score and (other_kl, other_score) != (kl, score)
            for other_kl, other_score in points
        )
        for kl, score in points
    ]
