"""Shows a running PPO job: progress, tracking, and how long it took to start."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ..params import Params
from ..progress import StageProgress
from ..tracking import Tracker
from .figures import plain
from .job import Job
from .rollback_rule import preflight_statement

SELF_JUDGED = (
    "validation shows the very reward that PPO trains on, which cannot see itself being misled"
    " (ppo.validation.score: reward)"
)
SHOWN = ("reward", "kl", "validation_score", "step_s")


class PPOWatch:
    """A context manager around the driver; `step` receives verl's metrics of each step."""

    def __init__(self, params: Params, job: Job, memory: str = ""):
        self.tracker = Tracker(params, "ppo")
        self.progress = StageProgress("ppo", job.total_steps)
        self.began = time.monotonic()
        self.startup_s = 0.0
        n_validations = -(-job.total_steps // job.validate_every_steps)
        self.promises = [preflight_statement(params.rollback, params.ppo.validation.n_prompts, n_validations)]
        if job.validation_score == "reward":
            self.promises.append(SELF_JUDGED)
        if memory:
            self.promises.append(memory)

    def __enter__(self) -> PPOWatch:
        self.tracker.__enter__()
        self.progress.__enter__()
        for promise in self.promises:
            self.progress.note(promise)
        self.progress.note("starting Ray, verl's workers and vLLM")
        return self

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """One step's (or the first validation's) metrics under verl's names."""
        found = plain(metrics)
        if not self.startup_s:
            work_s = found.get("step_s", 0.0) + found.get("validation_s", 0.0)
            self.startup_s = time.monotonic() - self.began - work_s
            self.progress.note(f"ready after {self.startup_s:.0f} s")
        self.tracker.log(step, found)
        self.progress.update(step, **{name: found[name] for name in SHOWN if name in found})

    def event(self, text: str) -> None:
        """An alarm, action or rollback, in words."""
        self.progress.note(text)
        self.tracker.event(self.progress.step, "event", text)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.__exit__(kind, error, trace)
        self.tracker.__exit__(kind, error, trace)
