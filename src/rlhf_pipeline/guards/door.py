"""The one door through which guards change a run: alarms in, actions as plain data out.

An action says what to multiply or that the run is to roll back or stop; carrying it out is the
trainer's job. After acting, a guard waits `cooldown_steps` for the effect; when it still fires within
as many steps again, its second remedy is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..params.training import GuardActs, Guards

ActionKind = Literal["kl_coef", "lr", "entropy_coeff", "rollback", "stop"]

REMEDIES: dict[str, tuple[ActionKind, ActionKind]] = {
    "kl": ("kl_coef", "lr"),
    "entropy": ("entropy_coeff", "lr"),
    "reward_swing": ("lr", "lr"),
    "reward_hacking": ("kl_coef", "kl_coef"),
    "explained_variance": ("lr", "lr"),
    "grad_norm": ("lr", "lr"),
    "response_length": ("kl_coef", "lr"),
    "repetition": ("kl_coef", "entropy_coeff"),
}
"""Guard -> first remedy, and the one taken when the first did not help."""


@dataclass(frozen=True)
class Alarm:
    """A guard's finding at a step."""

    guard: str
    step: int
    metric: str
    """The logged metric it is about."""
    value: float
    reference: float
    threshold: float
    window_steps: int
    text: str
    is_new: bool
    """The guard did not fire at the step before."""

    def __str__(self) -> str:
        return (
            f"{self.guard}: {self.text} ({self.metric} {self.value:.4g} over {self.window_steps} steps,"
            f" compared with {self.reference:.4g}; threshold {self.threshold:g})"
        )


@dataclass(frozen=True)
class Action:
    """One change to the run. For kl_coef, lr and entropy_coeff: `new_value` of what is in force."""

    kind: ActionKind
    guard: str
    step: int
    reason: str
    factor: float = 1.0
    at_least: float = 0.0

    def new_value(self, value: float) -> float:
        """The coefficient or learning rate after the action."""
        return max(value * self.factor, self.at_least)


def action_for(alarm: Alarm, last: tuple[int, bool] | None, guards: Guards) -> tuple[Action, bool] | None:
    """The action that an alarm calls for, and whether it is the second remedy; None to only warn or to wait.

    Args:
        last: step of the guard's last action and whether it was the second remedy.
    """
    level = getattr(guards, alarm.guard).action
    if level == "stop":
        return Action("stop", alarm.guard, alarm.step, str(alarm)), False
    if level != "act":
        return None
    since = None if last is None else alarm.step - last[0]
    if since is not None and 0 <= since < guards.cooldown_steps:
        return None
    second = since is not None and since < 2 * guards.cooldown_steps
    return _remedy(REMEDIES[alarm.guard][second], alarm, guards.act), second


def _remedy(kind: ActionKind, alarm: Alarm, acts: GuardActs) -> Action:
    factors: Mapping[str, tuple[float, float]] = {
        "kl_coef": (acts.kl_coef_factor, 0.0),
        "lr": (acts.lr_factor, 0.0),
        "entropy_coeff": (acts.entropy_coeff_factor, acts.entropy_coeff_floor),
    }
    factor, at_least = factors[kind]
    return Action(kind, alarm.guard, alarm.step, str(alarm), factor, at_least)
