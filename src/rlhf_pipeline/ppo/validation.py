"""From a validation's texts to one bounded score per prompt: gold rule, or win rate over the first policy.

A raw reward mean can be near zero and unbounded, so a 5% drop of it means nothing; these scores
lie in [0, 1]. Torch-free and pure.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from ..evaluation.gold import gold_scores, has_rule

TIE = 1e-5
"""Far above float32's rounding in a judge's score, far below a difference that means anything."""


class Sample(NamedTuple):
    """One validated response."""

    key: str
    """Names prompt and sample, the same in every validation of a run."""
    row: dict[str, Any]
    """The prompt's row of the prompts table."""
    response: str
    reward: float
    judged: float
    """The held-out judge's score; the reward where there is no such judge."""


def keyed(
    inputs: Sequence[str],
    outputs: Sequence[str],
    rewards: Sequence[float],
    rows: Mapping[str, dict[str, Any]],
) -> list[Sample]:
    """Pair verl's decoded validation texts with their prompts.

    Args:
        rows: the prompt rows by decoded prompt text; a text that is not there is left out
            (verl pads batches with rows of its own).
    """
    seen: dict[str, int] = {}
    samples = []
    for text, output, reward in zip(inputs, outputs, rewards, strict=True):
        if text not in rows:
            continue
        number = seen[text] = seen.get(text, -1) + 1
        key = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}/{number}"
        samples.append(Sample(key, rows[text], output, float(reward), float(reward)))
    return samples


def rule_scores(samples: Sequence[Sample]) -> dict[str, float]:
    """The gold rule's score of each sample, by key."""
    scores = gold_scores([sample.row for sample in samples], [sample.response for sample in samples])
    return {sample.key: score for sample, score in zip(samples, scores, strict=True)}


def judged_by(
    score: Callable[[list[Any], list[str]], Sequence[float]], samples: Sequence[Sample]
) -> list[Sample]:
    """The samples with a held-out judge's scores; `score` takes prompts (messages) and responses."""
    if not samples:
        return []
    scores = score([sample.row["prompt"] for sample in samples], [sample.response for sample in samples])
    return [sample._replace(judged=float(value)) for sample, value in zip(samples, scores, strict=True)]


def gold_mean(rows: Sequence[Mapping[str, Any]], responses: Sequence[str]) -> float | None:
    """Mean score of the rule over rollouts; None unless every row has a rule."""
    return fmean(gold_scores(rows, responses)) if rows and has_rule(rows) else None


def win_scores(samples: Sequence[Sample], first: Mapping[str, float]) -> dict[str, float]:
    """1 where the judge prefers the response to the first policy's on that prompt, 0.5 for a tie, else 0.

    Scores within TIE of one another are equal: the same response, scored in another batch, is no gain.
    """
    return {sample.key: _win(sample.judged, first[sample.key]) for sample in samples if sample.key in first}


def _win(score: float, other: float) -> float:
    if math.isclose(score, other, rel_tol=TIE, abs_tol=TIE):
        return 0.5
    return float(score > other)
