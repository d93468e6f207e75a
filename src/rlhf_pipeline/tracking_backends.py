"""Where tracked figures go: JSON Lines, wandb, TensorBoard, MLflow, each behind the same four calls.

A backend's libraries are imported when it starts, never before. `FAILURES` are the errors by which
one may fail without stopping training; tracking.py drops the backend and says so. All files lie
below `logs/tracking`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .paths import TRACKING, workspace

FAILURES: tuple[type[Exception], ...] = (
    OSError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ImportError,
)


@dataclass(frozen=True)
class RunInfo:
    """One stage of one pipeline run, as trackers name it."""

    project: str
    group: str
    stage: str
    identifier: str
    """The same when a killed stage goes on, another for other params or inputs."""
    resumed: bool
    """Whether this goes on with a run that was tracked before and did not end."""
    config: Mapping[str, Any]
    """The params, and under `lineage` what the stage starts from."""
    wandb_mode: str


class Backend(Protocol):
    """What a tracking backend does. `log` gets finite numbers only."""

    def start(self, run: RunInfo) -> None: ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def event(self, step: int, kind: str, text: str) -> None: ...

    def finish(self, summary: Mapping[str, float], failed: bool) -> None: ...


class JsonLines:
    """`logs/tracking/<group>/<stage>.jsonl`: a line for the start, each step, each event and the end."""

    def start(self, run: RunInfo) -> None:
        folder = workspace() / TRACKING / run.group
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{run.stage}.jsonl").open("a", encoding="utf-8")
        facts = {"project": run.project, "run": run.identifier}
        if run.resumed:
            self._write({"resume": run.stage, **facts})
        else:
            self._write({"start": run.stage, **facts, "config": run.config})

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write({"step": step, **metrics})

    def event(self, step: int, kind: str, text: str) -> None:
        self._write({"step": step, "event": kind, "text": text})

    def finish(self, summary: Mapping[str, float], failed: bool) -> None:
        self._write({"end": "failed" if failed else "finished", **summary})
        self._file.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        self._file.write(json.dumps({"time": round(time.time(), 3), **entry}) + "\n")
        self._file.flush()


class Wandb:
    """A wandb run; offline runs lie in `logs/tracking/wandb` until `wandb sync`."""

    def start(self, run: RunInfo) -> None:
        import wandb

        folder = workspace() / TRACKING
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=run.project,
            group=run.group,
            id=run.identifier,
            # Offline, wandb starts another folder with the same id; `wandb sync --append` joins them.
            resume="allow" if run.wandb_mode == "online" else None,
            name=f"{run.group}-{run.stage}",
            job_type=run.stage,
            config=dict(run.config),
            dir=str(folder),
            mode=run.wandb_mode,  # type: ignore[arg-type]
            settings=wandb.Settings(silent=True, console="off"),
        )
        # Steps go back after a rollback, which wandb's own step counter refuses.
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def event(self, step: int, kind: str, text: str) -> None:
        self._run.log({"step": step, f"event/{kind}": 1.0})
        self._run.alert(title=kind, text=text)

    def finish(self, summary: Mapping[str, float], failed: bool) -> None:
        self._run.summary.update(dict(summary))
        self._run.finish(exit_code=int(failed))


class TensorBoard:
    """Event files in `logs/tracking/tensorboard/<group>/<stage>`, written without importing torch."""

    def start(self, run: RunInfo) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._writer = EventFileWriter(str(workspace() / TRACKING / "tensorboard" / run.group / run.stage))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        summary = self._summary(value=values)
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def event(self, step: int, kind: str, text: str) -> None:
        self.log(step, {f"event/{kind}": 1.0})

    def finish(self, summary: Mapping[str, float], failed: bool) -> None:
        self._writer.close()


class MLflow:
    """An MLflow run on `MLFLOW_TRACKING_URI`, or in `logs/tracking/mlflow.db`."""

    def start(self, run: RunInfo) -> None:
        import mlflow

        folder = workspace() / TRACKING
        folder.mkdir(parents=True, exist_ok=True)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        experiment = self._client.get_experiment_by_name(run.project)
        experiment_id = (
            experiment.experiment_id if experiment else self._client.create_experiment(run.project)
        )
        known = f"tags.run = '{run.identifier}'"
        if run.resumed and (earlier := self._client.search_runs([experiment_id], known)):
            self._run_id = earlier[0].info.run_id
            self._client.update_run(self._run_id, status="RUNNING")
            return
        tags = {"group": run.group, "stage": run.stage, "run": run.identifier}
        name = f"{run.group}-{run.stage}"
        self._run_id = self._client.create_run(experiment_id, run_name=name, tags=tags).info.run_id
        params = [mlflow.entities.Param(key, str(value)) for key, value in flatten(run.config).items()]
        self._client.log_batch(self._run_id, params=params)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            self._client.log_metric(self._run_id, name, value, step=step)

    def event(self, step: int, kind: str, text: str) -> None:
        self._client.set_tag(self._run_id, f"event.{kind}.{step}", text)

    def finish(self, summary: Mapping[str, float], failed: bool) -> None:
        for name, value in summary.items():
            self._client.log_metric(self._run_id, name, value)
        self._client.set_terminated(self._run_id, "FAILED" if failed else "FINISHED")


BACKENDS: dict[str, type[Backend]] = {
    "jsonl": JsonLines,
    "wandb": Wandb,
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
}


OWN_FAILURES = {
    # The mailbox is wandb's connection to its service, a process that can be killed.
    "wandb": (("wandb", "Error"), ("wandb.sdk.mailbox.mailbox", "MailboxClosedError")),
    "mlflow": (("mlflow.exceptions", "MlflowException"),),
}


def failures_of(name: str) -> tuple[type[Exception], ...]:
    """The errors by which a backend may fail: `FAILURES` and, once imported, its library's own."""
    own = [(sys.modules.get(module), error) for module, error in OWN_FAILURES.get(name, ())]
    return (*FAILURES, *(getattr(module, error) for module, error in own if module is not None))


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} as {"a.b": 1}."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            flat.update(flatten(item, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = item
    return flat
