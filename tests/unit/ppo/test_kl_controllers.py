"""KL controllers against hand-computed numbers, their state, and a plant they must hold at the target."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from rlhf_pipeline.errors import CheckpointError
from rlhf_pipeline.params.ppo import KLReward
from rlhf_pipeline.ppo.kl_controllers import (
    AdaptiveKLController,
    KLController,
    MovingAverageKLController,
    make_kl_controller,
)


def test_fixed_never_moves_by_itself():
    controller = KLController(0.02)
    controller.update(100.0, 64)
    assert controller.value == 0.02
    controller.scale(2.0)
    assert controller.value == 0.04


@pytest.mark.parametrize(
    ("measured", "expected"),
    # 64 / 1000 x the error: +10% -> 1.0064; +900% is clipped to 0.2 -> 1.0128; -100% to -0.2 -> 0.9872.
    [(0.088, 0.5 * 1.0064), (0.8, 0.5 * 1.0128), (0.0, 0.5 * 0.9872), (0.08, 0.5)],
)
def test_adaptive_by_hand(measured, expected):
    controller = AdaptiveKLController(0.5, target=0.08, horizon=1000)
    controller.update(measured, 64)
    assert controller.value == pytest.approx(expected, rel=1e-12)


def test_moving_average_by_hand():
    controller = MovingAverageKLController(0.1, target=0.1, horizon=100, decay=0.5, gain=2.0)
    assert controller.value == 0.1
    # m = 0.15: error 0.5, base 0.1 x (1 + 0.5 x 10 / 100) = 0.105, raised by 1.5^2 = 2.25.
    controller.update(0.15, 10)
    assert controller.value == pytest.approx(0.105 * 2.25, rel=1e-12)
    # m = 0.5 x 0.15 + 0.5 x 0.03 = 0.09: error -0.1, base 0.105 x 0.99, not raised below the target.
    controller.update(0.03, 10)
    assert controller.average == pytest.approx(0.09, rel=1e-12)
    assert controller.value == pytest.approx(0.105 * 0.99, rel=1e-12)
    # m = 0.5 x 0.09 + 0.5 x 3.91 = 2.0: error clipped to 1, raised by 100, not 20^2.
    controller.update(3.91, 10)
    assert controller.value == pytest.approx(0.105 * 0.99 * 1.1 * 100, rel=1e-12)


def test_moving_average_stays_within_its_bounds():
    controller = MovingAverageKLController(1.0, target=0.1, horizon=10, decay=0.0, gain=0.0)
    for _ in range(50):
        controller.update(0.0, 5)
    assert controller.value == pytest.approx(1 / 50)
    for _ in range(200):
        controller.update(9.0, 5)
    assert controller.value == pytest.approx(1000.0)
    controller.update(0.0, 10_000)
    assert controller.value == pytest.approx(1 / 50)


@pytest.mark.parametrize("kind", ["fixed", "adaptive", "moving_average"])
def test_state_goes_on_exactly_and_nan_changes_nothing(kind):
    def make():
        return make_kl_controller(
            KLReward(
                coef=0.02, controller=kind, target=0.08, horizon=500, ema_decay=0.7, gain=2.0, estimator="k3"
            )
        )

    measured = np.random.default_rng(0).uniform(0, 0.5, 20)
    whole, first, second = make(), make(), make()
    for kl in measured:
        whole.update(kl, 64)
    for kl in measured[:9]:
        first.update(kl, 64)
    first.update(math.nan, 64)
    first.update(math.inf, 64)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for kl in measured[9:]:
        second.update(kl, 64)
    assert second.value == whole.value
    assert second.state_dict() == whole.state_dict()
    assert make().kind == kind


def test_the_state_of_another_kind_is_refused():
    with pytest.raises(CheckpointError, match=r"'fixed' KL controller, params ask for 'adaptive'"):
        AdaptiveKLController(0.1, 0.1, 10).load_state_dict(KLController(0.1).state_dict())


def kl_course(controller, steps: int, push: float, seed: int) -> list[float]:
    """A policy pushed away from the reference by reward and pulled back by the penalty.

    KL = z^2 / 2, measured with 20% noise; z <- z + push (1 - coef z): without a penalty KL grows without end.
    """
    noise = np.random.default_rng(seed)
    drift, course = 0.0, []
    for _ in range(steps):
        kl = drift * drift / 2
        coef = controller.value
        controller.update(kl * math.exp(0.2 * noise.standard_normal()), 64)
        drift = max(0.0, drift + push * (1.0 - coef * drift))
        course.append(kl)
    return course


@pytest.mark.parametrize("push", [0.03, 0.05, 0.1])
def test_moving_average_holds_the_target_where_adaptive_does_not(push):
    coef, target = 0.02, 0.08
    ours = MovingAverageKLController(coef, target, horizon=300, decay=0.7, gain=2.0)
    verls = AdaptiveKLController(coef, target, horizon=300)
    held = kl_course(ours, 80, push, seed=1)
    ran_away = kl_course(verls, 80, push, seed=1)
    assert np.mean(held[-20:]) == pytest.approx(target, rel=0.5)
    assert np.mean(ran_away[-20:]) > 3 * target
    assert max(held) < max(ran_away) / 1.5
