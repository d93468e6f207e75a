"""Win rates by hand, and the length control on made data whose answer is known."""

import numpy as np
import pytest

from rlhf_pipeline.evaluation.win_rate import length_controlled_win_rate, win_rate, wins


def test_a_win_a_loss_and_a_tie() -> None:
    assert wins([2.0, 1.0, 3.0], [1.0, 2.0, 3.0]).tolist() == [1.0, 0.0, 0.5]


def test_every_sample_meets_every_other() -> None:
    # 3 beats 1 and ties 3; 0 loses to both: (1 + 0.5 + 0 + 0) / 4.
    assert wins([[3.0, 0.0]], [[1.0, 3.0]]).tolist() == [0.375]


def test_unequal_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="1 and 2 prompts"):
        wins([1.0], [1.0, 2.0])


def test_a_policy_against_itself_wins_half_with_no_doubt() -> None:
    scores = np.random.default_rng(0).normal(size=30)
    assert win_rate(scores, scores, 200, seed=1) == (0.5, 0.5, 0.5)


def test_sides_swapped_mirror_the_rate() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = generator.normal(0.3, 1, 80), generator.normal(0, 1, 80)
    forth, back = win_rate(ours, theirs, 500, 2), win_rate(theirs, ours, 500, 2)
    assert forth.value == pytest.approx(1 - back.value)
    assert forth.low == pytest.approx(1 - back.high)


def _judged_by(length_weight: float, quality: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    longer = generator.normal(12.0, 10.0, 4000)
    logit = quality + length_weight * np.tanh(longer / longer.std())
    return (generator.random(4000) < 1 / (1 + np.exp(-logit))).astype(float), longer


def test_a_judge_that_only_likes_length_gives_half_at_equal_length() -> None:
    won, longer = _judged_by(length_weight=2.0, quality=0.0, seed=3)
    assert won.mean() > 0.65
    found = length_controlled_win_rate(won, longer, 200, seed=1)
    assert found.value == pytest.approx(0.5, abs=0.04)
    assert found.low < 0.5 < found.high


def test_real_quality_survives_the_length_control() -> None:
    won, longer = _judged_by(length_weight=2.0, quality=np.log(3.0), seed=4)
    assert length_controlled_win_rate(won, longer, 200, seed=1).value == pytest.approx(0.75, abs=0.04)


def test_equal_lengths_leave_the_rate_as_it_is() -> None:
    won = np.array([1.0] * 70 + [0.0] * 30)
    # One added half win and half loss: (70 + 0.5) / 101.
    assert length_controlled_win_rate(won, np.zeros(100), 100, seed=1).value == pytest.approx(70.5 / 101)


def test_always_winning_and_always_longer_stays_finite() -> None:
    found = length_controlled_win_rate(np.ones(50), np.arange(1, 51), 100, seed=1)
    assert 0.5 < found.low <= found.value <= found.high < 1.0
