"""Follows the JSON Lines file that verl's `file` logger writes and hands each step on as it comes.

verl truncates that file at every start, so each attempt of a run writes one of its own; `merged`
puts the attempts together, the later one winning for a step that was repeated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

Handler = Callable[[int, dict[str, Any]], None]
FOLLOW_INTERVAL_S = 0.3


class MetricsLog:
    """A context manager around one attempt; `path` is what verl writes to."""

    def __init__(self, folder: Path, handler: Handler):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"attempt-{len(list(folder.glob('attempt-*.jsonl'))):04d}.jsonl"
        self.path.touch()
        self.handler = handler
        self.position = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._follow, name="ppo-metrics", daemon=True)

    def __enter__(self) -> MetricsLog:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done.set()
        self.thread.join()
        self._read()

    def _follow(self) -> None:
        while not self.done.wait(FOLLOW_INTERVAL_S):
            self._read()

    def _read(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self.position)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # verl is in the middle of it
                self.position += len(line)
                entry = json.loads(line)
                self.handler(int(entry["step"]), entry["data"])


def merged(folder: Path) -> dict[int, dict[str, Any]]:
    """Metrics by step over all attempts; a half-written last line is left out."""
    steps: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.glob("attempt-*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                entry = json.loads(line)
                steps.setdefault(int(entry["step"]), {}).update(entry["data"])
    return dict(sorted(steps.items()))
