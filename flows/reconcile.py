"""Keeps what Prefect says about a run true when a process or the server was killed.

Each run has a file in `.rlhf/flow_runs` from its start until Prefect knows its end. At the next start,
and when `make ui` starts, a run whose process is gone gets the end it had, or Crashed with the reason.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound

from rlhf_pipeline.orphans import boot_id, is_same_process, start_ticks
from rlhf_pipeline.paths import workspace
from rlhf_pipeline.publish import write_json

FLOW_RUNS = Path(".rlhf/flow_runs")


class RunRecord:
    """The file of the run that this process works on."""

    def __init__(self, flow_run_id: UUID, what: str) -> None:
        self.flow_run_id = flow_run_id
        self.file = workspace() / FLOW_RUNS / f"{flow_run_id}.json"
        me = os.getpid()
        self._facts: dict[str, Any] = {
            "flow_run_id": str(flow_run_id),
            "what": what,
            "pid": me,
            "start_ticks": start_ticks(me),
            "boot_id": boot_id(),
            "stage": None,
            "end": None,
        }
        write_json(self.file, self._facts)

    def at(self, stage: str, task_run_id: UUID | None) -> None:
        """The run has come to this stage."""
        self._facts |= {"stage": stage, "task_run_id": str(task_run_id) if task_run_id else None}
        write_json(self.file, self._facts)

    def ended(self, state: State[Any]) -> None:
        """The run ends in this state; Prefect is about to be told."""
        self._facts["end"] = {"type": state.type.value, "name": state.name, "message": state.message}
        write_json(self.file, self._facts)


def forget(flow_run_id: UUID) -> None:
    """Prefect knows how this run ended."""
    (workspace() / FLOW_RUNS / f"{flow_run_id}.json").unlink(missing_ok=True)


def reconcile() -> list[str]:
    """Give every run that died its true end; returns a line for each.

    Raises:
        httpx.HTTPError: when the server does not answer.
    """
    said = []
    with get_client(sync_client=True) as client:
        for file in sorted((workspace() / FLOW_RUNS).glob("*.json")):
            facts = json.loads(file.read_text(encoding="utf-8"))
            same_boot = facts["boot_id"] == boot_id()
            if same_boot and is_same_process(facts["pid"], facts["start_ticks"]):
                continue
            line = _settle(client, facts)
            file.unlink(missing_ok=True)
            if line:
                said.append(line)
    return said


def _settle(client: SyncPrefectClient, facts: dict[str, Any]) -> str | None:
    flow_run_id = UUID(facts["flow_run_id"])
    try:
        flow_run = client.read_flow_run(flow_run_id)
    except ObjectNotFound:
        return None
    end = facts["end"] or {
        "type": "CRASHED",
        "name": "Crashed",
        "message": f"process {facts['pid']} is gone"
        + ("" if facts["boot_id"] == boot_id() else " (the machine was restarted)")
        + (f"; it was at stage {facts['stage']}" if facts["stage"] else ""),
    }
    known = flow_run.state
    settled = known is not None and known.is_final()
    if settled and (facts["end"] is None or (known and known.name == end["name"])):
        return None
    if known is not None and known.type in (StateType.CANCELLING, StateType.CANCELLED):
        end = {"type": "CANCELLED", "name": "Cancelled", "message": end["message"]}
    state: State[Any] = State(type=StateType(end["type"]), name=end["name"], message=end["message"])
    client.set_flow_run_state(flow_run_id, state, force=True)
    if facts["end"] is None and facts.get("task_run_id"):
        _settle_task(client, UUID(facts["task_run_id"]), state)
    return f"flow run {flow_run.name!r} is now {state.name}: {state.message}"


def _settle_task(client: SyncPrefectClient, task_run_id: UUID, state: State[Any]) -> None:
    try:
        task_run = client.read_task_run(task_run_id)
        if task_run.state is None or not task_run.state.is_final():
            client.set_task_run_state(task_run_id, state, force=True)
    except (ObjectNotFound, httpx.HTTPStatusError):
        return
