"""Reward-model figures from margins whose answers are known."""

from typing import Any

import numpy as np
import pytest

from rlhf_pipeline.evaluation.pairs import (
    accuracy_by,
    calibration,
    correct,
    histogram,
    length_gap_label,
    pair_report,
)


def test_a_tie_counts_half() -> None:
    assert correct(np.array([0.1, 0.0, -2.0])).tolist() == [1.0, 0.5, 0.0]


def test_accuracy_by_label() -> None:
    found = accuracy_by(["a", "b", "a"], np.array([1.0, 1.0, -1.0]))
    assert found == {"a": {"accuracy": 0.5, "pairs": 2}, "b": {"accuracy": 1.0, "pairs": 1}}


@pytest.mark.parametrize(
    ("chosen", "rejected", "label"),
    [
        (20, 20, "about equal"),
        (19, 20, "about equal"),
        (20, 15, "chosen longer"),
        (5, 20, "chosen much shorter"),
        (20, 5, "chosen much longer"),
        (0, 0, "about equal"),
    ],
)
def test_length_gaps(chosen: Any, rejected: Any, label: Any) -> None:
    assert length_gap_label(chosen, rejected) == label


def test_a_model_as_often_right_as_it_says_is_calibrated() -> None:
    sure = np.log(0.8 / 0.2)
    found = calibration(np.array([sure] * 80 + [-sure] * 20))
    assert found["error"] == pytest.approx(0.0, abs=1e-9)
    assert found["bins"] == [{"confidence": pytest.approx(0.8), "accuracy": 0.8, "pairs": 100}]
    assert found["brier"] == pytest.approx(0.8 * 0.2**2 + 0.2 * 0.8**2)
    assert found["log_loss"] == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2))


def test_a_boastful_model_is_not() -> None:
    assert calibration(np.array([9.0, -9.0] * 50))["error"] == pytest.approx(0.5, abs=0.001)


def test_histogram_counts_every_margin() -> None:
    found = histogram(np.array([-1.0, 0.5, 2.0]))
    assert sum(found["counts"]) == 3
    assert len(found["edges"]) == len(found["counts"]) + 1


def test_report_has_the_plain_names_and_the_length_baseline() -> None:
    pairs = [{"prompt_id": str(index), "source": "s"} for index in range(4)]
    metrics, details = pair_report(
        pairs, np.array([1.0, 1.0, 1.0, -1.0]), [(9, 3)] * 3 + [(3, 9)], 100, seed=1
    )
    assert metrics["pair_accuracy"] == 0.75
    assert metrics["pair_accuracy_ci_low"] <= 0.75 <= metrics["pair_accuracy_ci_high"]
    assert metrics["pair_accuracy_longer_wins"] == 0.75
    assert list(details["by_length_gap"]) == ["chosen much shorter", "chosen much longer"]
