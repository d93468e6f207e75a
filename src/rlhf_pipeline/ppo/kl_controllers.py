"""How the weight of the KL penalty in the reward follows the measured KL: fixed, adaptive, moving_average.

Same interface as verl's controllers (`value`, `update(current_kl, n_steps)`), so that they stand in for
`trainer.kl_ctrl_in_reward`; on top, their state can be saved, restored and scaled, and a KL that is not
finite changes nothing. Formulas are in docs/reliability.md; estimating the KL is not done here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import CheckpointError
from ..params.ppo import KLReward

ADAPTIVE_CLIP = 0.2
"""Largest relative error that the adaptive controller reacts to (Ziegler et al. 2019, section 2.2)."""
MOVING_AVERAGE_CLIP = 1.0
LARGEST_BOOST = 100.0
"""Most that an overshoot multiplies the coefficient by at once."""
LOWEST_SHARE, HIGHEST_SHARE = 1 / 50, 1000.0
"""Bounds of the moving_average base, as shares of the configured coefficient."""


class KLController:
    """Keeps the coefficient as configured; the base of the other two.

    Args:
        coef: first coefficient of the KL penalty.
    """

    kind = "fixed"

    def __init__(self, coef: float) -> None:
        self.base = coef

    @property
    def value(self) -> float:
        """The coefficient to use for the next batch."""
        return self.base

    def update(self, current_kl: float, n_steps: int) -> None:
        """Take in the mean KL(policy || reference) per token, in nats, measured over `n_steps` sequences."""

    def scale(self, factor: float) -> None:
        """Multiply the coefficient, as a rollback or a guard does."""
        self.base *= factor

    def state_dict(self) -> dict[str, Any]:
        """JSON values from which `load_state_dict` goes on exactly."""
        return {"kind": self.kind, "base": self.base}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            CheckpointError: it was saved by another kind of controller.
        """
        if state.get("kind") != self.kind:
            raise CheckpointError(
                f"the checkpoint holds the state of a {state.get('kind')!r} KL controller, params ask for"
                f" {self.kind!r} (ppo.kl.reward.controller)"
            )
        self.base = float(state["base"])


class AdaptiveKLController(KLController):
    """coef <- coef (1 + clip(KL / target - 1, -0.2, 0.2) n / horizon): Ziegler et al. 2019, as in verl."""

    kind = "adaptive"

    def __init__(self, coef: float, target: float, horizon: int) -> None:
        super().__init__(coef)
        self.target = target
        self.horizon = horizon

    def update(self, current_kl: float, n_steps: int) -> None:
        """One proportional step towards the target."""
        if math.isfinite(current_kl):
            error = _clip(current_kl / self.target - 1.0, -ADAPTIVE_CLIP, ADAPTIVE_CLIP)
            self.base *= 1.0 + error * n_steps / self.horizon


class MovingAverageKLController(KLController):
    """Adaptive on an exponential moving average m of the measured KL, with an immediate answer to overshoot.

    m    <- decay m + (1 - decay) KL               (the first KL as it is)
    base <- base (1 + clip(m / target - 1, -1, 1) n / horizon), within [1/50, 1000] of the configured coef
    coef  = base min(100, max(1, m / target) ^ gain)
    """

    kind = "moving_average"

    def __init__(self, coef: float, target: float, horizon: int, decay: float, gain: float) -> None:
        super().__init__(coef)
        self._lowest, self._highest = coef * LOWEST_SHARE, coef * HIGHEST_SHARE
        self.target = target
        self.horizon = horizon
        self.decay = decay
        self.gain = gain
        self.average: float | None = None

    @property
    def value(self) -> float:
        """The base, raised while the average is above the target."""
        overshoot = 1.0 if self.average is None else max(1.0, self.average / self.target)
        return self.base * min(LARGEST_BOOST, overshoot**self.gain)

    def update(self, current_kl: float, n_steps: int) -> None:
        """Move the average, then the base."""
        if not math.isfinite(current_kl):
            return
        if self.average is None:
            self.average = current_kl
        else:
            self.average = self.decay * self.average + (1.0 - self.decay) * current_kl
        error = _clip(self.average / self.target - 1.0, -MOVING_AVERAGE_CLIP, MOVING_AVERAGE_CLIP)
        share = max(0.0, 1.0 + error * n_steps / self.horizon)
        self.base = _clip(self.base * share, self._lowest, self._highest)

    def scale(self, factor: float) -> None:
        """Multiply the coefficient and its bounds."""
        super().scale(factor)
        self._lowest *= factor
        self._highest *= factor

    def state_dict(self) -> dict[str, Any]:
        """The base, its bounds and the average."""
        bounds = {"lowest": self._lowest, "highest": self._highest}
        return {**super().state_dict(), **bounds, "average": self.average}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state (raises as the base class does)."""
        super().load_state_dict(state)
        self._lowest, self._highest = float(state["lowest"]), float(state["highest"])
        self.average = None if state["average"] is None else float(state["average"])


def make_kl_controller(params: KLReward) -> KLController:
    """The controller that `ppo.kl.reward` names."""
    if params.controller == "fixed":
        return KLController(params.coef)
    if params.controller == "adaptive":
        return AdaptiveKLController(params.coef, params.target, params.horizon)
    return MovingAverageKLController(
        params.coef, params.target, params.horizon, params.ema_decay, params.gain
    )


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
