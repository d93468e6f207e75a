"""The promise of the guards: silent on healthy runs, within 10 steps on runs that go wrong.

Published runs are used where they are on disk; the synthetic course of the same shape always is.
"""

from __future__ import annotations

import pytest

from rlhf_pipeline import params
from rlhf_pipeline.guards.monitor import GuardMonitor

from . import guard_courses as courses

RUNS = ("qwen2.5-0.5b-prompt1024-resp512", "qwen2.5-0.5b-prompt512-resp256")
MOST_ALARMS = 0.05
WITHIN_STEPS = 10
LEAD_STEPS = 40
"""Steps watched before a fault: more than window and baseline together."""

needs_published = pytest.mark.skipif(
    not courses.PUBLISHED.is_dir(), reason="the published runs are not on this disk"
)
HEALTHY = [
    *(
        pytest.param(lambda name=name: courses.published(name), id=name, marks=needs_published)
        for name in RUNS
    ),
    *(
        pytest.param(lambda seed=seed: courses.synthetic(seed=seed), id=f"synthetic-{seed}")
        for seed in range(3)
    ),
]
EVERYWHERE = {
    "kl ramp": (courses.kl_ramp, {"kl"}),
    "entropy collapse": (courses.entropy_collapse, {"entropy"}),
    "reward up, gold down": (courses.hacking, {"reward_hacking"}),
    "NaN": (courses.not_a_number, {"non_finite"}),
    "one answer": (courses.one_answer, {"response_length", "entropy", "repetition"}),
    "score crash": (courses.score_crash, {"reward_swing"}),
    "gradient growth": (courses.gradient_growth, {"grad_norm"}),
}


@pytest.fixture(scope="module")
def guards():
    return params.load(courses.Path(__file__).resolve().parents[3] / "params.yaml").guards


def watch(guards, course, until=None):
    monitor = GuardMonitor(guards)
    return [monitor.observe(step, metrics) for step, metrics in enumerate(course[:until])]


@pytest.mark.parametrize("make", HEALTHY)
def test_a_healthy_run_is_left_alone(guards, make):
    watches = watch(guards, make())
    actions = {action.kind for watch in watches for action in watch.actions}
    assert not actions & {"rollback", "stop"}
    alarmed = sum(bool(watch.alarms) for watch in watches)
    assert alarmed <= MOST_ALARMS * len(watches)


def onsets(course, fault):
    """Every 20th step from 40 on; gold has no way down before it has gone up, so that fault starts later."""
    return range(60 if fault is courses.hacking else 40, len(course) - WITHIN_STEPS, 20)


def undetected(guards, course, fault, names):
    """The onsets after which none of `names` fires within 10 steps; prints how long the others took."""
    late, steps_taken = [], []
    for start in onsets(course, fault):
        watches = watch(guards, fault(course, start)[start - LEAD_STEPS : start + WITHIN_STEPS])
        fired = [{alarm.guard for alarm in seen.alarms} & names for seen in watches[LEAD_STEPS:]]
        first = next((number for number, guards_fired in enumerate(fired, 1) if guards_fired), None)
        steps_taken.append(first)
        if first is None:
            late.append(start)
    print(f"{fault.__name__}: {len(steps_taken)} onsets, steps until the alarm {steps_taken}")
    return late


@pytest.mark.parametrize("make", HEALTHY[:3])
@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_fault_is_caught_within_ten_steps(guards, make, name):
    fault, names = EVERYWHERE[name]
    course = make()
    assert len(onsets(course, fault)) >= 10
    assert undetected(guards, course, fault, names) == []


def test_a_lost_critic_is_caught_within_ten_steps(guards):
    assert undetected(guards, courses.synthetic(), courses.critic_lost, {"explained_variance"}) == []


@pytest.mark.parametrize("make", HEALTHY[:3])
def test_nan_and_exploded_kl_ask_for_a_rollback(guards, make):
    course = make()
    assert watch(guards, courses.not_a_number(course, 50), until=51)[-1].actions[0].kind == "rollback"
    exploded = [dict(metrics) for metrics in course[:60]]
    exploded[59]["actor/reward_kl_penalty"] = 50.0
    action = watch(guards, exploded)[-1].actions[0]
    assert (action.kind, action.reason.split(":")[0]) == ("rollback", "KL exploded")


@pytest.mark.parametrize("every", [10, 12])
def test_gold_that_is_only_validated_is_enough(guards, every):
    """Validation every few steps: hacking shows at the second validation after it began."""
    course = courses.hacking(courses.synthetic(), 100)
    for step, metrics in enumerate(course):
        gold = metrics.pop("rollout/gold/mean")
        if step % every == 0:
            metrics["val/score"] = gold
    watches = watch(guards, course, until=100 + 2 * every + 1)
    fired = [
        watch.alarms[0].step for watch in watches if any(a.guard == "reward_hacking" for a in watch.alarms)
    ]
    assert fired
    assert fired[0] > 100


@needs_published
@pytest.mark.parametrize("name", RUNS)
def test_the_bare_rules_would_fire_for_most_of_a_healthy_run(name):
    """What the comparison with the run's own course is for."""
    course = courses.published(name)
    kl = sum(metrics["actor/reward_kl_penalty"] > 0.2 for metrics in course)
    entropy = sum(metrics["actor/entropy"] < 0.1 for metrics in course)
    assert kl > 100
    assert entropy > 300
