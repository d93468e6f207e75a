"""The bootstrap and the standard error against numbers worked out by hand or by plain loops."""

from typing import Any

import numpy as np
import pytest

from rlhf_pipeline.evaluation.statistics import (
    Clusters,
    bootstrap,
    clusters,
    mean_interval,
    resample_counts,
    standard_error,
)


def test_clusters_sum_and_count_by_label_in_sorted_order() -> None:
    found = clusters([1.0, 2.0, 4.0], ["b", "a", "b"])
    assert found.sums.tolist() == [2.0, 5.0]
    assert found.counts.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("values", "groups"), [([], []), ([1.0], ["a", "b"])])
def test_clusters_refuse_nothing_and_unequal_lengths(values: Any, groups: Any) -> None:
    with pytest.raises(ValueError, match="as long and not empty"):
        clusters(values, groups)


def test_every_resample_draws_as_many_clusters_as_there_are() -> None:
    counts = np.concatenate(list(resample_counts(7, 50, seed=1)))
    assert counts.shape == (50, 7)
    assert (counts.sum(axis=1) == 7).all()


def test_interval_holds_the_value_and_narrows_with_more_prompts() -> None:
    values = np.tile([0.0, 1.0], 50)
    few = mean_interval(values[:20], np.arange(20), 2000, seed=3)
    many = mean_interval(values, np.arange(100), 2000, seed=3)
    assert few.value == many.value == 0.5
    # A mean of n coin flips has standard error 0.5 / sqrt(n), so half a width of 1.96 times that.
    assert many.high - many.value == pytest.approx(1.96 * 0.5 / 10, abs=0.02)
    assert few.high - few.value > 1.5 * (many.high - many.value)


def test_equal_seeds_give_equal_intervals_and_others_do_not() -> None:
    values = np.random.default_rng(0).normal(size=40)
    first, again, other = (mean_interval(values, np.arange(40), 500, seed) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_interval_covers_the_truth_about_95_times_in_100() -> None:
    generator = np.random.default_rng(2)
    covered = 0
    for trial in range(300):
        found = mean_interval(generator.normal(1.0, 2.0, size=60), np.arange(60), 400, seed=trial)
        covered += found.low <= 1.0 <= found.high
    assert 0.90 <= covered / 300 <= 0.99


def test_correlated_values_of_one_prompt_widen_the_interval() -> None:
    values = np.repeat(np.random.default_rng(1).normal(size=30), 10)
    by_prompt = mean_interval(values, np.repeat(np.arange(30), 10), 1000, seed=1)
    by_row = mean_interval(values, np.arange(300), 1000, seed=1)
    assert by_prompt.value == pytest.approx(by_row.value)
    assert by_prompt.high - by_prompt.low > 2 * (by_row.high - by_row.low)


def test_ratio_of_sums_weighs_clusters_by_their_counts() -> None:
    assert bootstrap(Clusters(np.array([2.0, 0.0]), np.array([1.0, 3.0])), 10, seed=0).value == 0.5


def test_standard_error_of_single_values_is_the_textbook_one() -> None:
    values = np.array([1.0, 2.0, 4.0, 5.0])  # mean 3, sample variance 10/3, se = sqrt(10/3/4)
    assert standard_error(clusters(values, np.arange(4))) == pytest.approx(np.sqrt(10 / 12))


def test_standard_error_of_a_ratio_by_hand() -> None:
    # Ratio 6/4 = 1.5; residuals 1 - 1.5 = -0.5 and 5 - 4.5 = 0.5; sqrt(2/1 * 0.5) / 4 = 0.25.
    assert standard_error(Clusters(np.array([1.0, 5.0]), np.array([1.0, 3.0]))) == pytest.approx(0.25)


def test_standard_error_of_one_cluster_is_zero() -> None:
    assert standard_error(Clusters(np.array([3.0]), np.array([2.0]))) == 0.0
