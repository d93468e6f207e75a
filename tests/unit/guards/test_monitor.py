"""The door and the monitor: who acts, what first, how long it waits, and that state goes on exactly."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from rlhf_pipeline.guards.monitor import GuardMonitor
from rlhf_pipeline.params.training import Guards

KL = "actor/reward_kl_penalty"


def guards(non_finite: str = "stop", **actions: str) -> Guards:
    names = ("kl", "entropy", "reward_swing", "reward_hacking", "explained_variance", "grad_norm",
             "response_length", "repetition")  # fmt: skip
    return Guards.model_validate(
        {
            "baseline_steps": 6,
            "cooldown_steps": 4,
            "act": {
                "kl_coef_factor": 1.5,
                "lr_factor": 0.7,
                "entropy_coeff_factor": 2.0,
                "entropy_coeff_floor": 0.001,
            },
            "non_finite": non_finite,
            **{
                name: {"action": actions.get(name, "off"), "threshold": 0.2, "window_steps": 1}
                for name in names
            },
        }
    )


def ramp(monitor: GuardMonitor, start: int, stop: int) -> list[tuple[int, list[str], list[Any]]]:
    """KL of 0.1 for 8 steps, then 1.6 times more each step; step, new alarms, actions."""
    seen = []
    for step in range(start, stop):
        watch = monitor.observe(step, {KL: 0.1 * 1.6 ** max(0, step - 7)})
        seen.append((step, [a.guard for a in watch.alarms if a.is_new], [a.kind for a in watch.actions]))
    return seen


def test_the_first_remedy_then_a_wait_then_the_second():
    seen = ramp(GuardMonitor(guards(kl="act")), 0, 14)
    assert [step for step, new, _ in seen if new] == [9]
    assert [(step, kinds) for step, _, kinds in seen if kinds] == [(9, ["kl_coef"]), (13, ["lr"])]


@pytest.mark.parametrize(("level", "kinds"), [("off", []), ("warn", []), ("stop", ["stop"])])
def test_levels(level, kinds):
    seen = ramp(GuardMonitor(guards(kl=level)), 0, 10)
    assert seen[-1][2] == kinds
    assert bool(seen[-1][1]) == (level != "off")


def test_actions_say_the_new_values():
    monitor = GuardMonitor(guards(kl="act", entropy="act"))
    for step in range(6):
        monitor.observe(step, {KL: 0.1, "actor/entropy": 0.3})
    kl, entropy = monitor.observe(6, {KL: 0.3, "actor/entropy": 0.1}).actions
    assert (kl.kind, kl.new_value(0.02)) == ("kl_coef", pytest.approx(0.03))
    assert (entropy.kind, entropy.new_value(0.0), entropy.new_value(0.01)) == ("entropy_coeff", 0.001, 0.02)
    assert kl.reason == (
        "kl: KL is running away (actor/reward_kl_penalty 0.3 over 1 steps, compared with 0.1; threshold 0.2)"
    )


def test_stop_stands_alone():
    monitor = GuardMonitor(guards(kl="act", entropy="stop"))
    for step in range(6):
        monitor.observe(step, {KL: 0.1, "actor/entropy": 0.3})
    assert [action.kind for action in monitor.observe(6, {KL: 0.3, "actor/entropy": 0.1}).actions] == ["stop"]


def test_faults_ask_for_a_rollback_and_switch_off_with_their_guard():
    nan, exploded, dead = {"actor/pg_loss": math.nan}, {KL: 2.1}, {"response_length/mean": 1.0}
    for metrics, level in ((nan, {}), (exploded, {"kl": "warn"}), (dead, {"response_length": "warn"})):
        watch = GuardMonitor(guards(**level)).observe(5, metrics)
        assert [action.kind for action in watch.actions] == ["rollback"]
    for metrics, non_finite in ((nan, "warn"), (nan, "off"), (exploded, "stop"), (dead, "stop")):
        watch = GuardMonitor(guards(non_finite)).observe(5, metrics)
        assert watch.actions == ()
        assert [alarm.guard for alarm in watch.alarms] == (["non_finite"] if non_finite == "warn" else [])


def test_a_resumed_monitor_goes_on_exactly():
    whole = GuardMonitor(guards(kl="act"))
    expected = ramp(whole, 0, 20)
    for cut in range(1, 19):
        first, second = GuardMonitor(guards(kl="act")), GuardMonitor(guards(kl="act"))
        found = ramp(first, 0, cut)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert found + ramp(second, cut, 20) == expected
        assert second.state_dict() == whole.state_dict()


def test_a_rollback_forgets_the_course_it_undid():
    rolled, straight = GuardMonitor(guards(kl="act")), GuardMonitor(guards(kl="act"))
    ramp(rolled, 0, 12)
    ramp(straight, 0, 8)
    rolled.rolled_back(7)
    assert rolled.state_dict() == straight.state_dict()


def test_gold_of_rollouts_takes_the_place_of_the_score_that_came_first():
    monitor = GuardMonitor(guards(reward_hacking="warn"))
    monitor.observe(0, {"val/score": 0.5})
    for step in range(1, 12):
        monitor.observe(step, {"rollout/gold/mean": 0.6, "critic/score/mean": 0.1 * (step % 2)})
    monitor.observe(12, {"rollout/gold/mean": 0.6, "val/score": 0.4, "critic/score/mean": 0.1})
    assert monitor.history.source("gold") == "rollout/gold/mean"
    found = monitor.observe(13, {"rollout/gold/mean": 0.3, "val/score": 0.6, "critic/score/mean": 0.9})
    assert [alarm.guard for alarm in found.alarms] == ["reward_hacking"]
    assert found.alarms[0].metric == "rollout/gold/mean"
    assert (found.alarms[0].value, found.alarms[0].reference) == (0.3, pytest.approx(0.6))
