"""pass@k and best-of-n on counts small enough to list."""

import itertools
from typing import Any

import numpy as np
import pytest

from rlhf_pipeline.evaluation.many_samples import best_of_n_metrics, pass_at_k, pass_at_k_metrics


@pytest.mark.parametrize(
    ("n", "right", "k"), [(5, 2, 1), (5, 2, 3), (6, 1, 4), (4, 0, 2), (4, 4, 1), (5, 3, 3)]
)
def test_pass_at_k_is_the_share_of_all_draws_with_a_right_one(n: Any, right: Any, k: Any) -> None:
    draws = list(itertools.combinations(range(n), k))
    expected = sum(any(place < right for place in draw) for draw in draws) / len(draws)
    assert pass_at_k(n, right, k) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "right", "k"), [(3, 1, 4), (3, 4, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(n: Any, right: Any, k: Any) -> None:
    with pytest.raises(ValueError):
        pass_at_k(n, right, k)


def test_metrics_for_powers_of_two_up_to_the_samples() -> None:
    gold = np.array([[1.0, 0.5, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    found = pass_at_k_metrics(gold, "policy", 50, seed=1)
    assert found["pass_at_1_policy"] == pytest.approx((0.25 + 1.0) / 2)
    assert found["pass_at_2_policy"] == pytest.approx((0.5 + 1.0) / 2)
    assert found["pass_at_4_policy"] == 1.0
    assert "pass_at_3_policy" not in found


def test_best_of_n_by_hand() -> None:
    reward, gold = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([[0.9, 0.4], [0.7, 0.1]])
    found = best_of_n_metrics(reward, gold, "sft", 50, seed=1)
    assert found["best_of_n_gold_sft"] == pytest.approx((0.4 + 0.7) / 2)
    assert found["best_of_n_gold_ceiling_sft"] == pytest.approx((0.9 + 0.7) / 2)
    assert found["best_of_n_agreement_sft"] == 0.5
