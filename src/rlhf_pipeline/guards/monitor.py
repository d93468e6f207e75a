"""What a trainer asks after each step: metrics in, alarms, actions and faults out.

Holds the history and when each guard last acted, both of which go into the checkpoint's state, so that
a resumed run raises the alarms that the uninterrupted one would have raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..params.training import Guards
from .door import Action, Alarm, action_for
from .history import History
from .rules import RULES, fault_in, non_finite


@dataclass(frozen=True)
class Watch:
    """What the guards have to say about a step."""

    alarms: tuple[Alarm, ...]
    actions: tuple[Action, ...]
    """In the order they are to be carried out; rollback and stop stand alone."""


class GuardMonitor:
    """All guards over one run."""

    def __init__(self, guards: Guards) -> None:
        self.guards = guards
        self.history = History()
        self._fired_at: dict[str, int] = {}
        self._acted: dict[str, tuple[int, bool]] = {}

    def observe(self, step: int, metrics: Mapping[str, Any]) -> Watch:
        """Take in a finished step's metrics and judge the run as of that step.

        A fault (NaN, exploded KL, dead rollouts) yields a single rollback action: decide on it with
        rollback_rule.decide(fault=action.reason), which also says when to stop instead.
        """
        self.history.add(step, metrics)
        alarms = [alarm for name in RULES if (alarm := self._alarm(name, step)) is not None]
        if self.guards.non_finite != "off" and (found := non_finite(metrics)) is not None:
            alarms.append(self._raised("non_finite", step, found.split(" is ")[0], 0.0, 0.0, 0.0, 1, found))
        fault = fault_in(self.history, step, metrics, self.guards)
        if fault is not None:
            return Watch(tuple(alarms), (Action("rollback", "fault", step, fault),))
        return Watch(tuple(alarms), self._actions(alarms))

    def rolled_back(self, to_step: int) -> None:
        """Forget the course that a rollback has undone. (A restored state does the same.)"""
        self.history.truncate(to_step)
        self._fired_at = {name: step for name, step in self._fired_at.items() if step <= to_step}
        self._acted = {name: last for name, last in self._acted.items() if last[0] <= to_step}

    def state_dict(self) -> dict[str, Any]:
        """JSON values from which `load_state_dict` goes on exactly."""
        acted = {name: [step, second] for name, (step, second) in self._acted.items()}
        return {"history": self.history.state_dict(), "fired_at": dict(self._fired_at), "acted": acted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.history.load_state_dict(state["history"])
        self._fired_at = dict(state["fired_at"])
        self._acted = {name: (int(step), bool(second)) for name, (step, second) in state["acted"].items()}

    def _alarm(self, name: str, step: int) -> Alarm | None:
        guard = getattr(self.guards, name)
        series, rule = RULES[name]
        finding = (
            None if guard.action == "off" else rule(self.history, step, guard, self.guards.baseline_steps)
        )
        if finding is None:
            return None
        metric = self.history.source(series)
        return self._raised(
            name,
            step,
            metric,
            finding.value,
            finding.reference,
            guard.threshold,
            guard.window_steps,
            finding.text,
        )

    def _raised(
        self,
        name: str,
        step: int,
        metric: str,
        value: float,
        reference: float,
        threshold: float,
        window: int,
        text: str,
    ) -> Alarm:
        is_new = self._fired_at.get(name) != step - 1
        self._fired_at[name] = step
        return Alarm(name, step, metric, value, reference, threshold, window, text, is_new)

    def _actions(self, alarms: list[Alarm]) -> tuple[Action, ...]:
        actions = []
        for alarm in alarms:
            if alarm.guard == "non_finite":
                continue
            called_for = action_for(alarm, self._acted.get(alarm.guard), self.guards)
            if called_for is not None:
                actions.append(called_for[0])
                self._acted[alarm.guard] = (alarm.step, called_for[1])
        stop = [action for action in actions if action.kind == "stop"]
        return tuple(stop[:1] or actions)
