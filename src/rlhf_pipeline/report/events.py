"""Turns a run's event log into the report's time line: what happened at which step, in words.

Knows the kinds that matter to a reader by name and shows any other as it is; routine saves are kept
out of the charts. Steps that a resumed run went through again count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..checkpoints.events import effective_events
from .svg import Mark, number


class Happening(NamedTuple):
    """One line of the time line."""

    step: int
    kind: str
    style: str
    """bad, warn, good or quiet."""
    text: str


_STYLES = {
    "rollback": "bad",
    "damaged": "bad",
    "stop": "bad",
    "stopped": "bad",
    "alarm": "warn",
    "action": "warn",
    "resumed": "quiet",
    "committed": "quiet",
    "finished": "good",
}
_NAMES = {"committed": "saved"}
_LEFT_OUT = {"pruned", "rolled_back"}
_MARKED = {"rollback", "alarm", "action", "stop", "stopped", "damaged"}


def happened(events: Sequence[Mapping[str, Any]]) -> list[Happening]:
    """The time line of a run, as it happened; what has no step stands at the step before."""
    found: list[Happening] = []
    for event in effective_events(events):
        if event["kind"] in _LEFT_OUT:
            continue
        step = event.get("step")
        if step is None:
            step = found[-1].step if found else 0
        name, style = _NAMES.get(event["kind"], event["kind"]), _STYLES.get(event["kind"], "quiet")
        found.append(Happening(step, name, style, _text(event)))
    return found


def marks(happenings: Sequence[Happening]) -> list[Mark]:
    """The lines that charts draw for alarms, actions and rollbacks; one for each step and kind."""
    found = {
        (one.step, one.kind): Mark(one.step, f"step {one.step}: {one.kind}: {one.text}", one.style)
        for one in happenings
        if one.kind in _MARKED
    }
    return list(found.values())


def rollback_reasons(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """One sentence for each rollback that the run carried out."""
    return [
        f"Step {event.get('step')} went back to step {event.get('to_step')}: {event.get('reason')}"
        for event in events
        if event["kind"] == "rollback"
    ]


def _text(event: Mapping[str, Any]) -> str:
    if event["kind"] == "committed":
        score = event.get("score")
        good = "" if event.get("good", True) else ", not good"
        return "" if score is None else f"validation score {number(score)}{good}"
    if event["kind"] == "rollback":
        return f"back to step {event.get('to_step')}: {event.get('reason')}"
    known = event.get("text") or event.get("reason")
    rest = {
        key: value for key, value in event.items() if key not in ("kind", "step", "time", "text", "reason")
    }
    facts = ", ".join(f"{key} {_word(value)}" for key, value in rest.items() if value not in (None, [], ""))
    return f"{known} ({facts})" if known and facts else str(known or facts)


def _word(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
