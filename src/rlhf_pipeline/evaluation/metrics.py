"""From two policies' judged responses to the flat figures of reports/metrics/evaluate.json.

Pure numpy over arrays [prompts, samples]; names end in the side's label (`policy`, and `sft` for
the stage's reference). Every interval is a seeded bootstrap over prompts, the same resamples for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .many_samples import best_of_n_metrics, pass_at_k_metrics
from .sampling import Response
from .statistics import Clusters, Floats, Interval, bootstrap, flat
from .text import text_metrics
from .win_rate import length_controlled_win_rate, win_rate, wins

JUDGES = ("gold", "judge", "reward")
"""Most independent of training first: the first that exists gives the headline."""


class Side(NamedTuple):
    """One policy's responses, prompt by prompt, sample by sample, and what each judge said of them."""

    label: str
    responses: list[Response]
    """[prompts x samples], the samples of a prompt side by side."""
    scores: Mapping[str, Floats]
    """Judge name -> [prompts, samples]."""


class Resampling(NamedTuple):
    """How many bootstrap resamples, and their seed."""

    n: int
    seed: int


def comparison_metrics(policy: Side, against: Side, resampling: Resampling) -> dict[str, float]:
    """All but KL and pair accuracy: scores, gains, win rates, lengths, text figures, pass@k, best-of-n."""
    metrics: dict[str, float] = {}
    for side in (against, policy):
        metrics |= _side_metrics(side, resampling)
    for judge in (name for name in JUDGES if name in policy.scores):
        metrics |= _judged(judge, policy, against, resampling)
    first = next(name for name in JUDGES if name in policy.scores)
    for end in ("", "_ci_low", "_ci_high"):
        metrics[f"win_rate{end}"] = metrics[f"win_rate_by_{first}{end}"]
        metrics[f"win_rate_length_controlled{end}"] = metrics[f"win_rate_length_controlled_by_{first}{end}"]
    return metrics


def _side_metrics(side: Side, resampling: Resampling) -> dict[str, float]:
    metrics = text_metrics([response.text for response in side.responses], side.label)
    lengths = _lengths(side)
    metrics |= flat(f"response_tokens_{side.label}", _mean(lengths, resampling))
    metrics[f"truncated_rate_{side.label}"] = float(np.mean([not one.finished for one in side.responses]))
    for judge, scores in side.scores.items():
        metrics |= flat(f"{judge}_{side.label}", _mean(scores, resampling))
    if "gold" in side.scores:
        metrics |= pass_at_k_metrics(side.scores["gold"], side.label, *resampling)
        if "reward" in side.scores and side.scores["gold"].shape[1] > 1:
            metrics |= best_of_n_metrics(side.scores["reward"], side.scores["gold"], side.label, *resampling)
    return metrics


def _judged(judge: str, policy: Side, against: Side, resampling: Resampling) -> dict[str, float]:
    ours, theirs = policy.scores[judge], against.scores[judge]
    gain = bootstrap(_clusters(ours.mean(axis=1) - theirs.mean(axis=1)), *resampling)
    longer = _lengths(policy).mean(axis=1) - _lengths(against).mean(axis=1)
    controlled = length_controlled_win_rate(wins(ours, theirs), longer, *resampling)
    return {
        **flat(f"{judge}_gain", gain),
        **flat(f"win_rate_by_{judge}", win_rate(ours, theirs, *resampling)),
        **flat(f"win_rate_length_controlled_by_{judge}", controlled),
    }


def _lengths(side: Side) -> Floats:
    """Tokens per response, EOS included, [prompts, samples]."""
    n_prompts = len(next(iter(side.scores.values())))
    return np.array([len(one.token_ids) for one in side.responses], dtype=np.float64).reshape(n_prompts, -1)


def _mean(values: Floats, resampling: Resampling) -> Interval:
    return bootstrap(_clusters(values.mean(axis=1)), *resampling)


def _clusters(per_prompt: Floats) -> Clusters:
    return Clusters(per_prompt, np.ones_like(per_prompt))


def as_matrix(scores: Sequence[float] | Floats, n_prompts: int) -> Floats:
    """Scores [prompts x samples] as float64 [prompts, samples]."""
    return np.asarray(scores, dtype=np.float64).reshape(n_prompts, -1)
