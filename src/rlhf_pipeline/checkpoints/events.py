"""Append-only log of a run: saves, alarms, actions, rollbacks, resumes; one JSON object a line.

A line torn by a kill is cut off when the log is next opened. Decisions are never read back from here
(the ledger holds what counts); reports and flows read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

EVENTS = "events.jsonl"


def append_event(path: Path, kind: str, step: int | None, facts: Mapping[str, Any]) -> None:
    """Add one event and make it last (fsync). `facts` must be JSON values; NaN is written as null."""
    event = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "kind": kind,
        "step": step,
        **facts,
    }
    line = json.dumps(_finite(event)) + "\n"
    with path.open("a", encoding="utf-8") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def mend_events(path: Path) -> None:
    """Cut off a last line that was torn by a kill."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            file.truncate(whole)
            os.fsync(file.fileno())


def read_events(path: Path) -> list[dict[str, Any]]:
    """Every event in order; an unreadable line becomes {"kind": "unreadable", "step": None}."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            event = None
        events.append(event if isinstance(event, dict) else {"kind": "unreadable", "step": None})
    return events


def effective_events(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The events of the course the run really took.

    A resumed run goes through the steps after its checkpoint again: what was logged for them since the
    last rollback, and before the `resumed` event, is dropped.
    """
    kept: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "resumed":
            after = event["step"] or 0
            course = (
                max((place for place, old in enumerate(kept) if old["kind"] == "rollback"), default=-1) + 1
            )
            kept[course:] = [old for old in kept[course:] if old["step"] is None or old["step"] <= after]
        kept.append(dict(event))
    return kept


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value
