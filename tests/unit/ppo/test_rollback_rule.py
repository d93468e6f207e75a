"""The rollback rule: decisions, the paired bootstrap, and what a validation size can see."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from rlhf_pipeline.params.training import Rollback
from rlhf_pipeline.ppo import rollback_rule
from rlhf_pipeline.ppo.rollback_rule import (
    Validation,
    decide,
    paired_upper_bound,
    preflight_statement,
    smallest_visible_drop,
)

PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "data" / "verl-gsm8k-runs"
RULE = Rollback(
    enabled=True,
    max_drop=0.05,
    confirm="paired_bootstrap",
    max_rollbacks=2,
    kl_coef_factor=2.0,
    lr_factor=0.5,
)
BARE = RULE.model_copy(update={"confirm": "none"})


def validation(step: int, scores: list[float]) -> Validation:
    return Validation(
        step, float(np.mean(scores)), {f"p{number}": score for number, score in enumerate(scores)}
    )


def test_small_drops_and_gains_go_on():
    best = validation(4, [1.0] * 60 + [0.0] * 40)
    for n_right in (57, 60, 90):
        decision = decide(validation(8, [1.0] * n_right + [0.0] * (100 - n_right)), best, BARE, 0)
        assert (decision.action, decision.good) == ("continue", True)
        assert decision.drop == pytest.approx(1 - n_right / 60)


def test_the_bare_rule_goes_back_and_the_bootstrap_asks_for_more():
    best = validation(4, [1.0] * 60 + [0.0] * 40)
    slightly = validation(8, [1.0] * 56 + [0.0] * 44)
    assert decide(slightly, best, BARE, 0).action == "rollback"
    unconfirmed = decide(slightly, best, RULE, 0)
    assert (unconfirmed.action, unconfirmed.good) == ("continue", True)
    assert "not confirmed" in unconfirmed.reason
    clearly = decide(validation(8, [1.0] * 30 + [0.0] * 70), best, RULE, 0)
    assert (clearly.action, clearly.to_step, clearly.good) == ("rollback", 4, False)
    assert clearly.upper_bound < 0


def test_after_max_rollbacks_the_run_stops_with_the_best():
    decision = decide(validation(8, [0.0] * 50), validation(4, [1.0] * 50), RULE, 2)
    assert (decision.action, decision.to_step) == ("stop", 4)
    assert "rollback.max_rollbacks" in decision.reason


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_fault_counts_as_a_drop(score):
    best = validation(4, [1.0])
    assert decide(Validation(8, score, {}), best, RULE, 0).action == "rollback"
    assert decide(validation(8, [1.0]), best, RULE, 0, fault="KL exploded").reason == "step 8: KL exploded"
    without = decide(validation(1, [1.0]), None, RULE, 0, fault="NaN in actor/loss")
    assert (without.action, without.to_step, without.good) == ("stop", None, False)


def test_switched_off_it_reports_but_does_not_act_and_a_fault_stops():
    off = RULE.model_copy(update={"enabled": False})
    best = validation(4, [1.0] * 50)
    decision = decide(validation(8, [0.0] * 50), best, off, 0)
    assert (decision.action, decision.good) == ("continue", False)
    assert decide(validation(8, [0.0] * 50), best, off, 0, fault="NaN").action == "stop"


def test_a_best_of_zero_has_no_relative_drop():
    assert decide(validation(8, [0.0]), validation(4, [0.0]), RULE, 0).action == "continue"


def test_the_bound_by_hand():
    # Every prompt differs by the same -0.25, so every resample's mean does too: 0.7 - 0.95 x 1.0.
    new, best = {"a": 0.7, "b": 0.7}, {"a": 1.0, "b": 1.0}
    assert paired_upper_bound(new, best, 0.05) == pytest.approx(-0.25, abs=1e-12)
    # Two prompts with differences 0.05 and -0.95 (new 1 and 0, best 1): means 0.05, -0.45, -0.95 with chances
    # 1/4, 1/2, 1/4, so the 95% point is 0.05.
    assert paired_upper_bound({"a": 1.0, "b": 0.0}, best, 0.05) == pytest.approx(0.05, abs=1e-12)
    # A score that is not finite counts as 0.
    assert paired_upper_bound({"a": math.nan, "b": math.inf}, best, 0.05) == pytest.approx(-0.95, abs=1e-12)


def test_the_bound_agrees_with_the_normal_one_on_many_prompts():
    draw = np.random.default_rng(3)
    new, best = draw.uniform(size=2000), draw.uniform(size=2000)
    differences = new - 0.95 * best
    expected = differences.mean() + 1.645 * differences.std() / math.sqrt(2000)
    found = paired_upper_bound(dict(enumerate(new)), dict(enumerate(best)), 0.05)
    assert found == pytest.approx(expected, abs=0.0015)


def test_equal_seeds_give_equal_bounds_and_prompts_must_match():
    draw = np.random.default_rng(4)
    new, best = (dict(enumerate(draw.uniform(size=50))) for _ in range(2))
    assert paired_upper_bound(new, best, 0.05, seed=1) == paired_upper_bound(new, best, 0.05, seed=1)
    assert paired_upper_bound(new, best, 0.05, seed=1) != paired_upper_bound(new, best, 0.05, seed=2)
    with pytest.raises(ValueError, match="50 new, 49 before, 49 in both"):
        paired_upper_bound(new, {key: best[key] for key in range(49)}, 0.05)
    with pytest.raises(ValueError, match="same prompts"):
        paired_upper_bound({}, {}, 0.05)


def runs_with_a_false_rollback(rule: Rollback, n_prompts: int, n_validations: int, n_runs: int) -> float:
    """Share of runs of constant true quality 0.6, 0/1 scores, in which the rule ever goes back."""
    draw = np.random.default_rng(5)
    fired = 0
    for _ in range(n_runs):
        best = None
        for step in range(n_validations):
            new = validation(step, (draw.uniform(size=n_prompts) < 0.6).astype(float).tolist())
            if decide(new, best, rule, 0, n_validations=n_validations).action == "rollback":
                fired += 1
                break
            if best is None or new.score > best.score:
                best = new
    return fired / n_runs


def test_noise_alone_nearly_always_fires_the_bare_rule_and_rarely_the_confirmed_one():
    assert runs_with_a_false_rollback(BARE, 500, 20, 30) > 0.9
    assert runs_with_a_false_rollback(RULE, 500, 20, 10) <= 0.1


def test_more_validations_ask_for_more_evidence():
    draw = np.random.default_rng(8)
    new, best = (dict(enumerate(draw.uniform(size=300))) for _ in range(2))
    bounds = [paired_upper_bound(new, best, 0.05, n_validations=planned) for planned in (1, 5, 50)]
    assert bounds == sorted(bounds)
    differences = np.array([new[key] - 0.95 * best[key] for key in new])
    # The 99.9% point of the normal distribution is 3.0902.
    expected = differences.mean() + 3.0902 * differences.std() / math.sqrt(300)
    assert bounds[2] == pytest.approx(expected, abs=0.006)


def test_the_stated_smallest_drop_is_found_as_often_as_stated(monkeypatch):
    monkeypatch.setattr(rollback_rule, "MIN_RESAMPLES", 300)
    n_prompts, score = 400, 0.6
    drop = smallest_visible_drop(n_prompts, 0.05, score=score)
    # (1.6449 + 0.8416) x sqrt(0.24 x (1 + 0.9025) / 400) / 0.6 + 0.05
    assert drop == pytest.approx(0.05 + 2.4865 * math.sqrt(0.24 * 1.9025 / 400) / 0.6, abs=1e-4)
    draw = np.random.default_rng(6)
    found = 0
    for _ in range(100):
        best = validation(1, (draw.uniform(size=n_prompts) < score).astype(float).tolist())
        new = validation(2, (draw.uniform(size=n_prompts) < score * (1 - drop)).astype(float).tolist())
        found += paired_upper_bound(new.by_prompt, best.by_prompt, 0.05) < 0
    assert 70 <= found <= 92


def test_the_statement_before_the_run():
    # 0.05 + (2.8070 + 0.8416) x sqrt(0.24 x 1.9025 / 128) / 0.6 = 0.413
    assert "20 validations (0/1 scores around 0.6) a true drop of 41%" in preflight_statement(RULE, 128, 20)
    assert "a true drop of 30% is found in 4 of 5 cases" in preflight_statement(RULE, 128)
    assert "not even a fall to zero" in preflight_statement(RULE, 8)
    assert "one in 31% of validations" not in preflight_statement(RULE, 128)
    assert "off" in preflight_statement(RULE.model_copy(update={"enabled": False}), 128)
    assert "31% of validations" in preflight_statement(BARE, 128)


@pytest.mark.parametrize("name", ["qwen2.5-0.5b-prompt1024-resp512", "qwen2.5-0.5b-prompt512-resp256"])
def test_published_healthy_runs_are_never_rolled_back(name):
    """Validation accuracies of two published runs; which of the 1,319 questions were right is drawn."""
    path = PUBLISHED / f"{name}.csv"
    if not path.exists():
        pytest.skip("the published runs are not on this disk")
    with path.open(encoding="utf-8") as file:
        rows = [row["val/test_score/openai/gsm8k"] for row in csv.DictReader(file)]
    accuracies = [float(accuracy) for accuracy in rows if accuracy]
    difficulty = np.random.default_rng(7).uniform(size=1319)
    best = None
    for step, accuracy in enumerate(accuracies):
        noise = np.random.default_rng(step).normal(0.0, 0.3, size=1319)
        right = (difficulty + noise).argsort().argsort() < round(accuracy * 1319)
        new = validation(step, right.astype(float).tolist())
        assert new.score == pytest.approx(accuracy, abs=1e-3)
        assert decide(new, best, RULE, 0).action == "continue"
        if best is None or new.score > best.score:
            best = new
    assert len(accuracies) == 43
