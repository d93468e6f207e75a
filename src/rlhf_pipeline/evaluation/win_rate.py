"""How often one policy's response beats another's on the same prompt, and what length has to do with it.

Works on scores that a judge gave; the judges themselves (gold rule, reward model, held-out judge)
are elsewhere. A tie counts one half.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .statistics import Clusters, Floats, Interval, bootstrap, interval_of, resample_counts

_RIDGE = 1e-3
_NEWTON_STEPS = 25


def wins(policy_scores: ArrayLike, against_scores: ArrayLike) -> Floats:
    """Share of the pairs that the policy wins on each prompt, float64 [prompts].

    Both scores are [prompts, samples]; every sample of one side meets every sample of the other.

    Raises:
        ValueError: when the numbers of prompts differ.
    """
    ours, theirs = _matrix(policy_scores), _matrix(against_scores)
    if len(ours) != len(theirs):
        raise ValueError(f"scores are for {len(ours)} and {len(theirs)} prompts")
    difference = ours[:, :, None] - theirs[:, None, :]
    return np.asarray(((difference > 0) + 0.5 * (difference == 0)).mean(axis=(1, 2)), dtype=np.float64)


def win_rate(policy_scores: ArrayLike, against_scores: ArrayLike, n_resamples: int, seed: int) -> Interval:
    """Mean of `wins` in [0, 1] with a bootstrap interval over prompts; 0.5 says the two are alike."""
    share = wins(policy_scores, against_scores)
    return bootstrap(Clusters(share, np.ones_like(share)), n_resamples, seed)


def length_controlled_win_rate(
    won: ArrayLike, length_differences: ArrayLike, n_resamples: int, seed: int
) -> Interval:
    """The win rate that a logistic model expects at equal lengths (Dubois et al. 2024, arXiv 2404.04475).

    Fits P(win) = sigmoid(a + b tanh(d / std(d))) and returns sigmoid(a). `won` [prompts] is in [0, 1],
    `length_differences` [prompts] is policy minus other, in tokens. The paper's third term, the
    prompt's difficulty, needs a pool of judged models and is left out. A ridge of 0.001 on b keeps
    the fit finite where length separates wins from losses; the interval resamples prompts.
    """
    outcome = np.asarray(won, dtype=np.float64)
    difference = np.asarray(length_differences, dtype=np.float64)
    spread = difference.std()
    feature = np.tanh(difference / spread) if spread > 0 else np.zeros_like(difference)
    value = _intercepts(outcome, feature, np.ones((1, len(outcome))))[0]
    drawn = [
        _intercepts(outcome, feature, counts) for counts in resample_counts(len(outcome), n_resamples, seed)
    ]
    return interval_of(float(value), np.concatenate(drawn))


def _intercepts(outcome: Floats, feature: Floats, weights: Floats) -> Floats:
    """sigmoid of the fitted intercept for each row of `weights` [fits, prompts], by Newton's method."""
    n = weights.sum(axis=1)
    # A half win and a half loss keep the intercept finite when one side wins every time.
    intercept, slope = np.zeros(len(weights)), np.zeros(len(weights))
    for _ in range(_NEWTON_STEPS):
        expected = _sigmoid(intercept[:, None] + slope[:, None] * feature)
        prior = _sigmoid(intercept)
        error, variance = weights * (outcome - expected), weights * expected * (1 - expected)
        gradient_a = error.sum(axis=1) + (0.5 - prior)
        gradient_b = error @ feature - _RIDGE * n * slope
        h_aa = variance.sum(axis=1) + prior * (1 - prior)
        h_ab = variance @ feature
        h_bb = variance @ feature**2 + _RIDGE * n
        determinant = h_aa * h_bb - h_ab**2
        step_a = (h_bb * gradient_a - h_ab * gradient_b) / determinant
        step_b = (h_aa * gradient_b - h_ab * gradient_a) / determinant
        intercept += np.clip(step_a, -2, 2)
        slope += np.clip(step_b, -2, 2)
        if max(np.abs(step_a).max(), np.abs(step_b).max()) < 1e-9:
            break
    return _sigmoid(intercept)


def _sigmoid(value: Floats) -> Floats:
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * value)), dtype=np.float64)


def _matrix(scores: ArrayLike) -> Floats:
    matrix = np.asarray(scores, dtype=np.float64)
    return matrix[:, None] if matrix.ndim == 1 else matrix
