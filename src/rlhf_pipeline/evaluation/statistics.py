"""Means with 95% intervals: a seeded bootstrap over prompts, and the standard error of a ratio.

Everything is a ratio of sums over clusters (one cluster a prompt), so one function serves means per
prompt, per response and per token. Equal seeds draw equal resamples, which pairs the intervals of
two policies on the same prompts. Pure numpy; where the numbers come from is not this file's matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_COUNTS_AT_ONCE = 4_000_000


class Interval(NamedTuple):
    """A value and the ends of its 95% interval, all in the value's own unit."""

    value: float
    low: float
    high: float


class Clusters(NamedTuple):
    """Sum of the values and number of them in each cluster; both of shape [clusters]."""

    sums: Floats
    counts: Floats


def clusters(values: ArrayLike, groups: ArrayLike) -> Clusters:
    """Gather `values` [n] by the label in `groups` [n]; clusters stand in the labels' sorted order.

    Raises:
        ValueError: when the lengths differ or there is no value.
    """
    numbers = np.asarray(values, dtype=np.float64)
    labels = np.asarray(groups)
    if numbers.shape != labels.shape or numbers.ndim != 1 or numbers.size == 0:
        raise ValueError(f"values {numbers.shape} and groups {labels.shape} must be as long and not empty")
    _, inverse = np.unique(labels, return_inverse=True)
    return Clusters(
        np.bincount(inverse, weights=numbers).astype(np.float64), np.bincount(inverse).astype(np.float64)
    )


def resample_counts(n_clusters: int, n_resamples: int, seed: int) -> Iterator[Floats]:
    """How often each cluster is drawn, in blocks [resamples in the block, clusters] of float64.

    Rows are multinomial draws of `n_clusters` out of `n_clusters`; all blocks hold `n_resamples` rows.
    """
    rows = max(1, _COUNTS_AT_ONCE // n_clusters)
    if n_resamples <= rows:
        yield _drawn(n_clusters, n_resamples, seed)
        return
    generator = np.random.default_rng(seed)
    for start in range(0, n_resamples, rows):
        yield _draw(generator, n_clusters, min(rows, n_resamples - start))


@lru_cache(maxsize=4)  # dozens of figures share the same resamples
def _drawn(n_clusters: int, n_resamples: int, seed: int) -> Floats:
    counts = _draw(np.random.default_rng(seed), n_clusters, n_resamples)
    counts.flags.writeable = False
    return counts


def _draw(generator: np.random.Generator, n_clusters: int, n_resamples: int) -> Floats:
    share = np.full(n_clusters, 1.0 / n_clusters)
    return generator.multinomial(n_clusters, share, size=n_resamples).astype(np.float64)


def bootstrap(data: Clusters, n_resamples: int, seed: int) -> Interval:
    """Sum over count with its percentile bootstrap interval over clusters (Efron and Tibshirani 1993)."""
    drawn = [
        (counts @ data.sums) / (counts @ data.counts)
        for counts in resample_counts(len(data.sums), n_resamples, seed)
    ]
    return interval_of(float(data.sums.sum() / data.counts.sum()), np.concatenate(drawn))


def mean_interval(values: ArrayLike, groups: ArrayLike, n_resamples: int, seed: int) -> Interval:
    """The mean of `values` [n] with a bootstrap interval over the clusters named in `groups` [n]."""
    return bootstrap(clusters(values, groups), n_resamples, seed)


def standard_error(data: Clusters) -> float:
    """Linearised standard error of sum over count over clusters (Cochran 1977); 0.0 for one cluster."""
    n = len(data.sums)
    if n < 2:
        return 0.0
    residuals = data.sums - data.sums.sum() / data.counts.sum() * data.counts
    return float(np.sqrt(n / (n - 1) * np.sum(residuals**2)) / data.counts.sum())


def interval_of(value: float, drawn: ArrayLike) -> Interval:
    """A value with the 2.5 and 97.5 percentiles of its resampled values [resamples]."""
    low, high = np.percentile(np.asarray(drawn, dtype=np.float64), [2.5, 97.5])
    return Interval(value, float(low), float(high))


def flat(name: str, interval: Interval) -> dict[str, float]:
    """The three metrics `name`, `name_ci_low`, `name_ci_high`."""
    return {name: interval.value, f"{name}_ci_low": interval.low, f"{name}_ci_high": interval.high}
