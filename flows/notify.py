"""Tells somebody outside Prefect: of every rollback, and of scheduled runs that failed.

Set RLHF_NOTIFY_BLOCK to a notification block of your Prefect server, such as slack-webhook/team or
custom-webhook/ops. Without it nothing is sent; Prefect's automations can act on the same states.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from prefect.blocks.abstract import NotificationBlock
from prefect.blocks.core import Block
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import PrefectException
from prefect.utilities.asyncutils import run_coro_as_sync

from .reconcile import forget

BLOCK = "RLHF_NOTIFY_BLOCK"
SCHEDULED = "scheduled"
"""Tag of the deployments that run by the clock."""


def on_end(flow: Any, flow_run: FlowRun, state: State[Any]) -> None:
    """Hook for every end of a flow run: forget its record, tell what needs telling."""
    forget(flow_run.id)
    failed = state.is_failed() or state.is_crashed()
    if state.name == "RolledBack" or (failed and is_scheduled(flow_run)):
        notify(f"{flow.name} run {flow_run.name}: {state.name}", state.message or "")


HOOKS: dict[str, Any] = {
    hook: [on_end] for hook in ("on_completion", "on_failure", "on_cancellation", "on_crashed")
}


def is_scheduled(flow_run: FlowRun) -> bool:
    return flow_run.auto_scheduled or SCHEDULED in flow_run.tags


async def _send(name: str, subject: str, body: str) -> None:
    block: Block = await Block.aload(name)
    if not isinstance(block, NotificationBlock):
        raise ValueError(f"{name} is no notification block")
    await block.notify(body, subject)


def notify(subject: str, body: str) -> None:
    """Send through the block that RLHF_NOTIFY_BLOCK names; a failure is logged and changes nothing else."""
    name = os.environ.get(BLOCK)
    if not name:
        return
    try:
        run_coro_as_sync(_send(name, subject, body))
    except (PrefectException, OSError, ValueError, RuntimeError) as error:
        logging.getLogger(__name__).warning("could not notify through %s: %s", name, error)
