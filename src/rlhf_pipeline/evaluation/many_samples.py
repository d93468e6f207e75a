"""What several samples per prompt tell: pass@k where a rule checks answers, best-of-n by reward.

Both need `evaluate.samples_per_prompt` above 1 (pass@1 works with one). Scores are [prompts, samples].
"""

from __future__ import annotations

import numpy as np

from .statistics import Clusters, Floats, bootstrap, flat

FULL_MARKS = 1.0 - 1e-9


def pass_at_k(n_samples: int, n_correct: int, k: int) -> float:
    """Chance that one of k samples drawn from n is right: 1 - C(n-c, k) / C(n, k) (Chen et al. 2021).

    Raises:
        ValueError: unless 1 <= k <= n and 0 <= c <= n.
    """
    if not 1 <= k <= n_samples or not 0 <= n_correct <= n_samples:
        raise ValueError(f"pass@{k} of {n_correct} right among {n_samples} samples is not defined")
    if n_samples - n_correct < k:
        return 1.0
    return float(1.0 - np.prod(1.0 - k / np.arange(n_samples - n_correct + 1, n_samples + 1)))


def pass_at_k_metrics(gold: Floats, suffix: str, n_resamples: int, seed: int) -> dict[str, float]:
    """`pass_at_k_<suffix>` with intervals for k = 1, 2, 4, ... up to the samples; right is full marks."""
    n_samples = gold.shape[1]
    right = (gold >= FULL_MARKS).sum(axis=1)
    metrics: dict[str, float] = {}
    k = 1
    while k <= n_samples:
        values = np.array([pass_at_k(n_samples, int(count), k) for count in right])
        metrics |= flat(f"pass_at_{k}_{suffix}", bootstrap(_one_each(values), n_resamples, seed))
        k *= 2
    return metrics


def best_of_n_metrics(
    reward: Floats, gold: Floats, suffix: str, n_resamples: int, seed: int
) -> dict[str, float]:
    """Whether the reward model picks what gold would pick among the n samples of a prompt.

    `best_of_n_gold` is gold's mean on the reward model's picks, `best_of_n_gold_ceiling` on gold's own
    picks, `best_of_n_agreement` the share of prompts whose pick has the best gold there is (ties count).
    """
    picked = np.take_along_axis(gold, reward.argmax(axis=1)[:, None], axis=1)[:, 0]
    best = gold.max(axis=1)
    named = {"gold": picked, "gold_ceiling": best, "agreement": (picked >= best).astype(np.float64)}
    metrics: dict[str, float] = {}
    for name, values in named.items():
        metrics |= flat(f"best_of_n_{name}_{suffix}", bootstrap(_one_each(values), n_resamples, seed))
    return metrics


def _one_each(values: Floats) -> Clusters:
    return Clusters(values, np.ones_like(values))
