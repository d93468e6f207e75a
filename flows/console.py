"""What a run shows on the terminal: one bar a stage, or plain lines where the output is no terminal.

Bars read the progress file that each stage keeps. Prefect's own log lines are for its pages. Imports no
Prefect.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rlhf_pipeline import progress

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Console:
    """A context manager. `silent` shows nothing, where Prefect prints the log itself."""

    def __init__(self, folder: Path, silent: bool = False) -> None:
        self._folder, self._silent = folder, silent
        self._bars: Progress | None = None
        self._task: TaskID | None = None
        self._stage = ""

    def __enter__(self) -> Console:
        if sys.stdout.isatty() and not self._silent:
            self._bars = progress.rich_bar()
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def say(self, text: str) -> None:
        """A line of its own."""
        if self._bars is not None:
            self._bars.console.print(text, markup=False, highlight=False)
        elif not self._silent:
            print(text, flush=True)

    def start(self, stage: str) -> None:
        """A stage begins."""
        self._stage = stage
        progress.progress_file(stage, self._folder).unlink(missing_ok=True)
        if self._bars is not None:
            self._task = self._bars.add_task(stage, total=None, figures="")

    def line(self, text: str) -> None:
        """A line that the stage printed; on a terminal the bar says what routine lines say."""
        if self._bars is None or not progress.is_routine(self._stage, text):
            self.say(text)
        self.tick()

    def tick(self) -> None:
        """Move the bar."""
        state = progress.read(self._stage, self._folder) if self._stage else None
        if self._bars is None or self._task is None or state is None:
            return
        figures = progress.figures(state["metrics"])
        self._bars.update(self._task, completed=state["step"], total=state["total_steps"], figures=figures)

    def end(self, stage: str, how: str) -> None:
        """A stage has ended: Completed, Cached, Failed."""
        if self._bars is None or self._task is None:
            if how != "Completed":
                self.say(f"{stage}: {how.lower()}")
            return
        self.tick()
        total = self._bars.tasks[self._task].total or 1
        self._bars.update(self._task, completed=total, total=total)
        if how != "Completed":
            self._bars.update(self._task, figures=how.lower())
        self._bars.stop_task(self._task)
        self._task = None
