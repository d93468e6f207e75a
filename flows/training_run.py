"""One run of the pipeline without Prefect: its params, its locks, its workspace and its dvc.

flows/train.py shows it in Prefect; here is what happens, there is how it looks. Starting it costs half a
second, so that the first stage already works while Prefect is loading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.params import STAGE_SECTIONS
from rlhf_pipeline.paths import LOGS, workspace
from rlhf_pipeline.tracking import run_group

from .dvc_tasks import Outcome, Repro, save_experiment
from .inputs import changed, state_of_inputs
from .locks import device_places, run_locks, visible_devices
from .workspaces import checked_params, experiment_name, forget_old_experiments, own_workspace

STAGES = tuple(STAGE_SECTIONS)


@dataclass(frozen=True)
class Request:
    """What a run was asked to do; the flow's parameters."""

    overrides: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    from_stage: str | None = None
    to_stage: str | None = None
    experiment: str | None = None
    promote: bool = True
    gpus: list[int] | None = None

    @property
    def own_workspace(self) -> bool:
        """Whether the run must not touch the main workspace."""
        return bool(self.overrides or self.preset or self.experiment)

    @property
    def targets(self) -> list[str]:
        """Stages named to DVC: none for the whole pipeline."""
        if self.from_stage is not None:
            last = STAGES.index(self.to_stage) if self.to_stage else len(STAGES) - 1
            return list(STAGES[STAGES.index(self.from_stage) : last + 1])
        return [self.to_stage] if self.to_stage else []

    def check(self) -> None:
        """Refuse, before anything starts, what could not work.

        Raises:
            ParamsError: for wrong params, stages, experiment names and GPUs.
        """
        for name, stage in (("from_stage", self.from_stage), ("to_stage", self.to_stage)):
            if stage is not None and stage not in STAGES:
                raise ParamsError(f"{name}: {stage!r} is no stage; stages are {', '.join(STAGES)}")
        if self.from_stage and not self.targets:
            raise ParamsError(f"from_stage: {self.from_stage} comes after to_stage: {self.to_stage}")
        checked_params(self.preset, self.overrides)
        experiment_name(self.experiment, self.preset, self.overrides)
        device_places(self.gpus)


class TrainingRun:
    """A context manager: inside it dvc runs, and `stages` and `play` follow it."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.experiment: str | None = None
        self.folder = workspace()
        self.started = False
        self._stack = ExitStack()
        self._done: set[str] = set()

    def start(self, wait: bool = True, on_wait: Callable[[str], None] = lambda reason: None) -> bool:
        """Check, lock, prepare the workspace and start dvc; False when another run is in the way.

        Raises:
            ParamsError, EnvironmentProblem: when the run cannot work.
        """
        request = self.request
        request.check()
        params = checked_params(request.preset, request.overrides)
        if request.own_workspace:
            self.experiment = experiment_name(request.experiment, request.preset, request.overrides)
            self.folder = workspace() / ".rlhf" / "experiments" / self.experiment
        locks = run_locks(workspace(), self.folder, request.gpus, wait, on_wait)
        if not self._stack.enter_context(locks):
            self._stack.close()
            return False
        if self.experiment is not None:
            own_workspace(self.experiment, request.preset, request.overrides)
        self.group = self.experiment or run_group(params)
        self._begin()
        self.started = True
        return True

    def __enter__(self) -> TrainingRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def stages(self, on_tick: Callable[[], None] = lambda: None) -> Iterator[str]:
        """The stages in the order in which DVC comes to them."""
        while (stage := self._advance(on_tick)) is not None:
            yield stage

    def play(
        self,
        stage: str,
        on_line: Callable[[str], None] = lambda line: None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Follow one stage to its end."""
        before = state_of_inputs(self.folder, stage)
        outcome = self._repro.play(stage, on_line, on_tick)
        if outcome.status != "failed":
            self._done.add(stage)
        if outcome.status == "ran" and (edited := changed(before, state_of_inputs(self.folder, stage))):
            on_line(
                f"{stage}: {', '.join(edited)} changed while it ran; DVC has recorded the new content."
                f" To be sure: dvc repro --force {stage}"
            )
        return outcome

    def again(self, stage: str, on_tick: Callable[[], None] = lambda: None) -> None:
        """Start dvc once more after an interruption and go forward to this stage."""
        self._dvc.close()
        self._begin()
        for found in iter(lambda: self._advance(on_tick), None):
            if found == stage:
                return
            self._repro.play(found)

    def save(self) -> None:
        """Record a finished run in its own workspace as a DVC experiment."""
        if self.experiment is not None:
            done = [stage for stage in STAGES if stage in self._done]
            save_experiment(self.folder, self.experiment, done, self.folder / LOGS / "dvc-exp.log")
            forget_old_experiments(keep=self.experiment)

    def _begin(self) -> None:
        request = self.request
        repro = Repro(
            request.targets,
            single=request.from_stage is not None,
            folder=self.folder,
            group=self.group,
            env=visible_devices(request.gpus),
        )
        self._dvc = self._stack.enter_context(ExitStack())
        self._repro = self._dvc.enter_context(repro)
        self._announced: Iterator[str] | None = None

    def _advance(self, on_tick: Callable[[], None]) -> str | None:
        if self._announced is None:
            self._announced = self._repro.stages(on_tick)
        for stage in self._announced:
            if stage not in self._done:
                return stage
            self._repro.play(stage)
        return None


def log_file(folder: Path, stage: str) -> Path:
    """Where the whole output of a stage's children is."""
    return folder / LOGS / f"{stage}.log"
