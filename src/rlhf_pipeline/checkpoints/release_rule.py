"""Whether a new policy may take over from the promoted one: the rollback rule between two policies.

Pure: scores by prompt in, a verdict out. Generating and scoring the responses is the caller's job.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..ppo.rollback_rule import ROUNDING, paired_upper_bound


@dataclass(frozen=True)
class Comparison:
    """A new policy against the promoted one on the same prompts, by the same judge."""

    verdict: Literal["promote", "rollback"]
    new_score: float
    promoted_score: float
    drop: float | None
    """Relative; None when the promoted policy scores 0."""
    upper_bound: float
    """95% upper bound of mean(new - (1 - max_drop) promoted)."""
    n_prompts: int
    sentence: str


def compare(
    new: Mapping[str, float],
    promoted: Mapping[str, float],
    max_drop: float,
    *,
    confirm: Literal["paired_bootstrap", "none"] = "paired_bootstrap",
    seed: int = 0,
) -> Comparison:
    """Roll back when the new scores lie more than `max_drop` below the promoted ones, else promote.

    With paired_bootstrap the drop must be confirmed: the 95% upper bound of mean(new - (1 - max_drop)
    promoted) over prompts is below zero, the rule that PPO applies inside a run.

    Args:
        new, promoted: prompt id -> score in [0, 1], the same prompts in both; NaN and infinity count as 0.

    Raises:
        ValueError: the prompts differ, or there are none.
    """
    bound = paired_upper_bound(new, promoted, max_drop, seed=seed)
    ours, theirs = _mean(new), _mean(promoted)
    drop = 1.0 - ours / theirs if theirs > 0 else None
    dropped = drop is not None and drop > max_drop + ROUNDING
    confirmed = dropped and (confirm == "none" or bound < 0)
    change = "" if drop is None else f" ({-drop:+.1%})"
    found = "a drop" if confirmed else "no drop" if not dropped else "no confirmed drop"
    sentence = (
        f"new policy {ours:.3f}, promoted policy {theirs:.3f}{change}:"
        f" {found} over {max_drop:.0%} on {len(new)} prompts"
    )
    return Comparison("rollback" if confirmed else "promote", ours, theirs, drop, bound, len(new), sentence)


def _mean(scores: Mapping[str, float]) -> float:
    return sum(score for score in scores.values() if math.isfinite(score)) / len(scores)
