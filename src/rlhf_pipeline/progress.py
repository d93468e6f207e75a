"""What a stage shows while it works: a bar on a terminal, a line every few seconds otherwise.

The newest state is also kept in `.rlhf/progress/<stage>.json`, which the Prefect flow reads to show
the same figures. Not here: metrics for later analysis (tracking.py), framework output (logs/).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .paths import workspace
from .publish import write_json

if TYPE_CHECKING:
    from rich.progress import Progress

PROGRESS = Path(".rlhf/progress")
LINE_INTERVAL_S = 5.0
FILE_INTERVAL_S = 1.0


class StageProgress:
    """Shows one stage's progress; use it as a context manager.

    `total_steps` None means unknown. Metrics keep their last value until they are updated again.
    """

    def __init__(self, stage: str, total_steps: int | None) -> None:
        self.stage, self.total_steps = stage, total_steps
        self.step, self.metrics, self.last_note = 0, dict[str, float](), ""
        self._began = self._line_at = self._file_at = 0.0
        self._first_step, self._first_step_at = 0, 0.0
        self._bar: Progress | None = None

    def __enter__(self) -> StageProgress:
        self._began = time.monotonic()
        if sys.stdout.isatty():
            self._bar = rich_bar()
            self._task = self._bar.add_task(self.stage, total=self.total_steps, figures="")
            self._bar.start()
        else:
            print(f"{self.stage}: started", flush=True)
        self._write_file()
        return self

    def update(self, step: int, **metrics: float) -> None:
        """The stage has finished `step` (counted from 1), with these figures."""
        now = time.monotonic()
        if self.step == 0:
            self._first_step, self._first_step_at = step, now
        self.step = step
        self.metrics.update(metrics)
        if self._bar is not None:
            self._bar.update(self._task, completed=step, figures=figures(self.metrics))
        elif now - self._line_at >= LINE_INTERVAL_S or step == self.total_steps:
            self._line_at = now
            print(self.line(), flush=True)
        if now - self._file_at >= FILE_INTERVAL_S or step == self.total_steps:
            self._write_file()

    def note(self, text: str) -> None:
        """Say something that is no step: what is being loaded, a guard's alarm, a rollback."""
        self.last_note = text
        if self._bar is not None:
            self._bar.console.print(f"{self.stage}: {text}", markup=False, highlight=False)
        else:
            print(f"{self.stage}: {text}", flush=True)
        self._write_file()

    def line(self) -> str:
        """The state as one line of plain text."""
        of = f"/{self.total_steps}" if self.total_steps else ""
        shown = figures(self.metrics)
        left = self._seconds_left()
        return (
            f"{self.stage}: step {self.step}{of}"
            + (f"  {shown}" if shown else "")
            + (f"  {clock(left)} left" if left else "")
        )

    def _seconds_left(self) -> float | None:
        done = self.step - self._first_step
        if not self.total_steps or done <= 0:
            return None
        return (time.monotonic() - self._first_step_at) / done * (self.total_steps - self.step)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        how = "done" if kind is None else "stopped"
        at = f" at step {self.step}" if self.step and kind is not None else ""
        print(f"{self.stage}: {how}{at} after {clock(time.monotonic() - self._began)}", flush=True)
        self._write_file(how)

    def _write_file(self, state: str = "running") -> None:
        self._file_at = time.monotonic()
        finite = {name: value for name, value in self.metrics.items() if abs(value) < float("inf")}
        write_json(
            progress_file(self.stage),
            {
                "stage": self.stage,
                "state": state,
                "step": self.step,
                "total_steps": self.total_steps,
                "elapsed_s": round(self._file_at - self._began, 1),
                "metrics": finite,
                "note": self.last_note,
            },
        )


def progress_file(stage: str, folder: Path | None = None) -> Path:
    return (folder or workspace()) / PROGRESS / f"{stage}.json"


def read(stage: str, folder: Path | None = None) -> dict[str, Any] | None:
    """The last state a stage wrote in this workspace (or the one in `folder`), or None."""
    try:
        return json.loads(progress_file(stage, folder).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def is_routine(stage: str, line: str) -> bool:
    """Whether a printed line only says what a bar shows."""
    return line.startswith((f"{stage}: step ", f"{stage}: started", f"{stage}: done after"))


def figures(metrics: Mapping[str, float]) -> str:
    """`reward 0.31  kl 0.0214`: three significant digits, integers in full."""
    return "  ".join(f"{name} {_short(value)}" for name, value in metrics.items())


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e9 else f"{value:.3g}"


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def rich_bar() -> Progress:
    """The bar of a stage; the flow shows one for each."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:>13}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    return Progress(*columns, refresh_per_second=4)
