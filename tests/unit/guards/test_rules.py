"""Each rule on hand-made windows: what fires it, what does not, and the figures it reports."""

from __future__ import annotations

import math

import pytest

from rlhf_pipeline.guards import rules
from rlhf_pipeline.guards.history import EARLY, KEPT, History
from rlhf_pipeline.guards.texts import rollout_repetition
from rlhf_pipeline.params.training import Guard

VERL = {
    "kl": "actor/reward_kl_penalty",
    "entropy": "actor/entropy",
    "reward": "critic/score/mean",
    "explained_variance": "critic/vf_explained_var",
    "grad_norm": "actor/grad_norm",
    "response_tokens": "response_length/mean",
    "repetition": "rollout/repetition",
}


def history_of(**series) -> History:
    history = History()
    for step in range(max(len(values) for values in series.values())):
        metrics = {
            VERL.get(name, name): values[step] for name, values in series.items() if step < len(values)
        }
        history.add(step, {name: value for name, value in metrics.items() if value is not None})
    return history


def check(rule, threshold: float, **series):
    history = history_of(**series)
    last = max(len(values) for values in series.values()) - 1
    return rule(history, last, Guard(action="warn", threshold=threshold, window_steps=2), 6)


def test_kl_needs_both_the_level_and_the_growth():
    assert check(rules.kl, 0.2, kl=[0.1] * 6 + [0.2, 0.3]).value == pytest.approx(0.25)
    assert check(rules.kl, 0.2, kl=[0.1] * 6 + [0.2, 0.3]).reference == pytest.approx(0.1)
    assert check(rules.kl, 0.2, kl=[0.1] * 6 + [0.15, 0.24]) is None
    assert check(rules.kl, 0.2, kl=[0.3] * 6 + [0.44, 0.45]) is None
    assert check(rules.kl, 0.2, kl=[0.1] * 4 + [0.9, 0.9]) is None
    assert check(rules.kl, 0.2, kl=[3.0, 3.0]).text == "KL exploded"


def test_entropy_needs_both_the_level_and_the_fall():
    assert check(rules.entropy, 0.1, entropy=[0.2] * 6 + [0.1, 0.06]).value == pytest.approx(0.08)
    assert check(rules.entropy, 0.1, entropy=[0.12] * 6 + [0.09, 0.08]) is None
    assert check(rules.entropy, 0.1, entropy=[0.9] * 6 + [0.2, 0.2]) is None
    assert check(rules.entropy, 0.1, entropy=[0.009]).text == "entropy is gone"


def test_a_swing_is_a_fall_in_units_of_the_spread_at_the_start():
    mean = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.2, 0.2]
    spread = {"critic/score/max": [2.0] * 8, "critic/score/min": [-1.0] * 8}
    # The peak is the mean of 0.4 and 0.5; the fall 0.25 is under 10% of 3 and over 5% of 3.
    assert check(rules.reward_swing, 0.1, reward=mean, **spread) is None
    found = check(rules.reward_swing, 0.05, reward=mean, **spread)
    assert (found.value, found.reference) == (pytest.approx(0.2), pytest.approx(0.45))
    assert check(rules.reward_swing, 0.05, reward=mean) is None
    assert check(rules.reward_swing, 0.05, reward=sorted(mean), **spread) is None


def test_hacking_is_reward_up_and_gold_down():
    up, down, flat = [0.1 * n for n in range(8)], [0.8] * 6 + [0.7, 0.6], [0.8] * 8
    found = check(rules.reward_hacking, 0.05, reward=up, **{"rollout/gold/mean": down})
    assert (found.value, found.reference) == (pytest.approx(0.65), pytest.approx(0.8))
    assert check(rules.reward_hacking, 0.05, reward=up, **{"rollout/gold/mean": flat}) is None
    assert check(rules.reward_hacking, 0.05, reward=flat, **{"rollout/gold/mean": down}) is None
    assert check(rules.reward_hacking, 0.05, reward=up) is None
    # Gold with step-to-step jumps of 0.4: standard error 1.4826 x 0.4 / sqrt(2) x sqrt(1/2 + 1/6) = 0.342.
    jumpy = [1.0, 0.6] * 3 + [0.4, 0.2]
    assert check(rules.reward_hacking, 0.05, reward=up, **{"rollout/gold/mean": jumpy}) is None


def test_explained_variance_gradients_length_and_repetition():
    assert check(rules.explained_variance, 0.5, explained_variance=[-1.0, -1.0] + [0.5] * 4 + [-0.1, -0.1])
    assert check(rules.explained_variance, 0.5, explained_variance=[-1.0] * 6 + [0.1, 0.2]) is None
    assert check(rules.grad_norm, 10.0, grad_norm=[1.0] * 6 + [30.0, 40.0]).value == 35.0
    assert check(rules.grad_norm, 10.0, grad_norm=[1.0] * 6 + [1.0, 18.0]) is None
    assert check(rules.response_length, 0.5, response_tokens=[40.0] * 6 + [10.0, 20.0]).text.endswith("short")
    assert check(rules.response_length, 0.5, response_tokens=[40.0] * 6 + [90.0, 90.0]).text.endswith("long")
    assert check(rules.response_length, 0.5, response_tokens=[40.0] * 6 + [30.0, 30.0]) is None
    assert check(rules.repetition, 0.5, repetition=[0.1] * 6 + [0.6, 0.7]).value == pytest.approx(0.65)
    assert check(rules.repetition, 0.5, repetition=[0.4] * 6 + [0.6, 0.6]) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_only_watched_metrics_count_as_not_finite(value):
    assert rules.non_finite({"timing_s/step": value, "actor/pg_loss": value}) == f"actor/pg_loss is {value}"
    assert rules.non_finite({"perf/mfu": value, "actor/name": "x"}) is None


def test_history_takes_the_first_source_skips_nan_and_stays_bounded():
    history = History()
    history.add(0, {"actor/kl_loss": 0.5, "actor/reward_kl_penalty": 0.1})
    history.add(1, {"actor/kl_loss": 0.5, "actor/reward_kl_penalty": math.nan})
    assert history.windows("kl", 1, 5, 5).recent.tolist() == [0.1]
    assert history.source("kl") == "actor/reward_kl_penalty"
    for step in range(2, KEPT + 300):
        history.add(step, {"actor/reward_kl_penalty": float(step)})
    assert history.early("kl", 3).tolist() == [0.1, 2.0, 3.0]
    assert sum(map(len, history.state_dict()["series"].values())) == KEPT
    assert history.windows("kl", KEPT + 299, 1, 1).recent.tolist() == [KEPT + 299.0]
    history.truncate(EARLY)
    assert history.windows("kl", EARLY, 1, 1).recent.tolist() == [float(EARLY)]


def test_repetition_of_a_batch_by_hand():
    assert rollout_repetition([]) == 0.0
    assert rollout_repetition(["a b c d", "e f g h"]) == 0.0
    # Two of four are the same; within responses nothing repeats.
    assert rollout_repetition(["Yes", "yes ", "no", "maybe"]) == 0.5
    # "x x x x x" holds three 3-grams, two of them repeats.
    assert rollout_repetition(["x x x x x"]) == pytest.approx(2 / 3)
