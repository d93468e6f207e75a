"""Tracks one stage in every backend that params.yaml names; training never waits for it, nor fails by it.

All stages of one pipeline run share a group. Backends start and write on a thread of their own, so
that importing wandb costs a stage no time; a backend that fails is dropped with one line, the others
go on. Metric names are the caller's and the same in every backend; a stage that
goes on after a kill continues its run (tracking_runs.py). The backends themselves are in
tracking_backends.py.
"""

from __future__ import annotations

import importlib.util
import math
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType

from .errors import EnvironmentProblem
from .params import STAGE_SECTIONS, Params, digest
from .tracking_backends import BACKENDS, Backend, RunInfo, failures_of
from .tracking_runs import Tracked, identifier, lineage

GROUP_VARIABLE = "RLHF_RUN_GROUP"
FINISH_TIMEOUT_S = 60.0


class Tracker:
    """Tracks one stage; use it as a context manager.

    Raises:
        EnvironmentProblem: before anything starts, when a backend's package is not installed.
    """

    def __init__(self, params: Params, stage: str) -> None:
        tracking = params.tracking
        self._names: list[str] = [
            name for name in tracking.backends if name != "wandb" or tracking.wandb_mode != "disabled"
        ]
        for name in self._names:
            if importlib.util.find_spec("json" if name == "jsonl" else name) is None:
                raise EnvironmentProblem(
                    f"tracking.backends: {name} is not installed; install it or take it off the list"
                )
        group = run_group(params)
        run = identifier(params, stage, group)
        self._tracked = Tracked(group, stage, run)
        self._run = RunInfo(
            project=tracking.project,
            group=group,
            stage=stage,
            identifier=run,
            resumed=self._tracked.resumed,
            config={**params.model_dump(mode="json"), "lineage": lineage(stage)},
            wandb_mode=tracking.wandb_mode,
        )
        self._live: dict[str, Backend] = {}
        self._work: queue.SimpleQueue[Callable[[Backend], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"track-{stage}", daemon=True)
        self._summary: dict[str, float] = {}

    def __enter__(self) -> Tracker:
        self._thread.start()
        return self

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Figures of one step. Not-a-number and infinity are left out: backends disagree about them."""
        finite = _finite(metrics)
        if self._tracked.is_new(step):
            self._work.put(lambda backend: backend.log(step, finite))
            self._note(step)

    def event(self, step: int, kind: str, text: str) -> None:
        """Something that happened: a guard's alarm, a rollback, a resume."""
        if self._tracked.is_new(step):
            self._work.put(lambda backend: backend.event(step, kind, text))

    def summary(self, metrics: Mapping[str, float]) -> None:
        """Final figures, attached to the run when it ends."""
        self._summary.update(_finite(metrics))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        summary, failed = dict(self._summary), kind is not None
        self._work.put(lambda backend: backend.finish(summary, failed))
        self._work.put(None)
        self._thread.join(FINISH_TIMEOUT_S)
        if not failed:
            self._note(None, ended=True)
        if self._thread.is_alive():
            print(f"tracking: gave up waiting after {FINISH_TIMEOUT_S:.0f} s", file=sys.stderr)

    def _note(self, step: int | None, ended: bool = False) -> None:
        if self._names:
            try:
                self._tracked.note(step, ended)
            except (OSError, EnvironmentProblem) as error:
                print(f"tracking: how far it came cannot be noted: {error}", file=sys.stderr)

    def _serve(self) -> None:
        for name in self._names:
            backend = BACKENDS[name]()
            if self._attempt(name, partial(backend.start, self._run)):
                self._live[name] = backend
        while (work := self._work.get()) is not None:
            for name, backend in list(self._live.items()):
                if not self._attempt(name, partial(work, backend)):
                    del self._live[name]

    def _attempt(self, name: str, action: Callable[[], None]) -> bool:
        try:
            action()
        except failures_of(name) as error:
            first = (str(error).splitlines() or [""])[0]
            print(
                f"tracking: {name} is off, training goes on: {type(error).__name__}: {first}", file=sys.stderr
            )
            return False
        return True


def run_group(params: Params) -> str:
    """The group shared by all stages of a run: the flow's, the DVC experiment's, the params', or a digest."""
    given = os.environ.get(GROUP_VARIABLE) or params.tracking.experiment or os.environ.get("DVC_EXP_NAME")
    every = sorted({section for sections in STAGE_SECTIONS.values() for section in sections})
    return given or f"params-{digest(params, every)[:8]}"


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
