"""Shows a running stage in Prefect: its log without flooding, its progress, its alarms; and obeys Prefect.

Called line by line and once a second from the task that plays the stage, so everything happens in the
main thread, where signals arrive. A Prefect server that is away never stops training: what could not be
told is left out, and the end is reconciled later (reconcile.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.orchestration import get_client
from prefect.events import emit_event
from prefect.exceptions import Pause, PrefectException
from prefect.logging import get_run_logger
from prefect.states import State

from rlhf_pipeline import progress
from rlhf_pipeline.checkpoints.events import EVENTS, read_events
from rlhf_pipeline.paths import SCRATCH

from .console import Console
from .training_run import log_file

LINES_PER_WINDOW = 20
WINDOW_S = 10.0
PROGRESS_INTERVAL_S = 5.0
ORDERS_INTERVAL_S = 5.0
AWAY_S = 60.0
TOLD_EVENTS = frozenset({"alarm", "action", "rollback", "stop", "stopped", "damaged", "resumed"})


class CancelRequested(Exception):
    """Someone cancelled the flow run in Prefect."""


class Api:
    """Calls to the Prefect API that may fail: then none is tried for a minute, and work goes on."""

    def __init__(self) -> None:
        self._away_until = 0.0

    def call(self, action: Callable[[], Any]) -> Any:
        """The action's result, or None when the server is away."""
        if time.monotonic() < self._away_until:
            return None
        try:
            return action()
        except (httpx.HTTPError, PrefectException) as error:
            self._away_until = time.monotonic() + AWAY_S
            logging.getLogger(__name__).warning("the Prefect server does not answer, going on: %s", error)
            return None


class Watch:
    """Follows one stage."""

    def __init__(
        self, stage: str, folder: Path, flow_run_id: UUID, console: Console, api: Api, orders: Orders
    ) -> None:
        self._stage, self._folder, self._flow_run_id = stage, folder, flow_run_id
        self._console, self._api, self._orders = console, api, orders
        self._logger = get_run_logger()
        self._window_began, self._lines, self._held_back = 0.0, 0, 0
        self._artifact: UUID | None = None
        self._progress_at = time.monotonic()
        self._told = len(self._events())

    def line(self, text: str) -> None:
        """A line of the stage's output."""
        self._console.line(text)
        now = time.monotonic()
        if now - self._window_began > WINDOW_S:
            self._own_up()
            self._window_began, self._lines = now, 0
        self._lines += 1
        if self._lines <= LINES_PER_WINDOW:
            self._logger.info(text)
        else:
            self._held_back += 1
        self.tick()

    def tick(self) -> None:
        """Called about once a second; raises as `Orders.obey` does."""
        self._console.tick()
        now = time.monotonic()
        if now - self._progress_at >= PROGRESS_INTERVAL_S:
            self._progress_at = now
            self._show_progress()
            self._tell_events()
        self._orders.obey()

    def end(self) -> None:
        """The stage has ended: show its last state."""
        self._own_up()
        self._show_progress()
        self._tell_events()

    def _own_up(self) -> None:
        if self._held_back:
            place = log_file(self._folder, "dvc")
            self._logger.info("%d more lines in %s", self._held_back, place)
            self._held_back = 0

    def _show_progress(self) -> None:
        state = progress.read(self._stage, self._folder)
        if state is None or not state["total_steps"]:
            return
        percent = 100.0 * state["step"] / state["total_steps"]
        text = f"step {state['step']} of {state['total_steps']}  {progress.figures(state['metrics'])}"
        if self._artifact is None:
            key = f"{self._stage.replace('_', '-')}-progress"
            self._artifact = self._api.call(lambda: create_progress_artifact(percent, key, text))
        else:
            artifact = self._artifact
            self._api.call(lambda: update_progress_artifact(artifact, percent, text))

    def _events(self) -> list[dict[str, Any]]:
        """The ledger events of the newest PPO run of the workspace."""
        if self._stage != "ppo":
            return []
        files = list((self._folder / SCRATCH / "ppo").glob(f"*/ledger/{EVENTS}"))
        return read_events(max(files, key=lambda file: file.stat().st_mtime)) if files else []

    def _tell_events(self) -> None:
        events = self._events()
        for event in events[self._told :]:
            if event["kind"] in TOLD_EVENTS:
                tell_event(f"rlhf.{event['kind']}", self._flow_run_id, self._stage, event)
                self._logger.warning("%s at step %s: %s", event["kind"], event["step"], _reason(event))
        self._told = len(events)


def tell_event(kind: str, flow_run_id: UUID, about: str, payload: dict[str, Any]) -> None:
    """Emit a Prefect event, on which automations can act."""
    run = {"prefect.resource.id": f"prefect.flow-run.{flow_run_id}", "prefect.resource.role": "flow-run"}
    emit_event(
        event=kind,
        resource={"prefect.resource.id": f"rlhf.{about}", "prefect.resource.name": about},
        related=[run],
        payload=payload,
    )


class Orders:
    """Looks every few seconds whether somebody stopped this run in Prefect.

    A run without a worker, such as one from the command line, is told by nobody else.
    """

    def __init__(self, flow_run_id: UUID, api: Api) -> None:
        self._flow_run_id, self._api = flow_run_id, api
        self._looked_at = time.monotonic()

    def obey(self) -> None:
        """To be called about once a second.

        Raises:
            CancelRequested: the run was cancelled.
            prefect.exceptions.Pause: it was suspended, to be resumed later in a new process.
        """
        if time.monotonic() - self._looked_at < ORDERS_INTERVAL_S:
            return
        self._looked_at = time.monotonic()
        state: State | None = self._api.call(self._read)
        if state is not None and state.type.value in ("CANCELLING", "CANCELLED"):
            raise CancelRequested
        if state is not None and state.is_paused():
            raise Pause(state=state)

    def _read(self) -> State | None:
        with get_client(sync_client=True) as client:
            return client.read_flow_run(self._flow_run_id).state


def _reason(event: dict[str, Any]) -> str:
    return str(event.get("text") or event.get("reason") or "")
