"""Ends the run when rollouts fail: verl would pad a failed prompt away, or wait for ever for a dead worker.

A step on other samples than the batch's own is not the step that was asked for, and a validation without
some prompts compares with no other. The next start goes on from the last committed step.
"""

from __future__ import annotations

import time
from typing import Any

import ray

from ..errors import StageError

ASK_EVERY_S = 10.0


def watch_rollouts(buffer: Any, workers: list[Any]) -> None:
    """Make verl's replay buffer raise at its next poll when a prompt failed or one of the workers is gone.

    Args:
        buffer: verl's ReplayBuffer.
        workers: Ray handles of the agent loop workers that put responses into it.
    """
    look, alive = buffer._sync_metadata_from_transfer_queue, Liveness(workers)

    def look_and_check() -> None:
        look()
        failed = sum(len(keys) for keys in buffer.failure_keys.values())
        if failed:
            raise StageError(
                f"{failed} prompts got no response or no reward; the reason is above in this log"
                " (Error in _run_prompt). The next start goes on from the last committed step"
            )
        alive.check()

    buffer._sync_metadata_from_transfer_queue = look_and_check


class Liveness:
    """Asks Ray actors now and then whether they are there, without waiting for the answer."""

    def __init__(self, workers: list[Any]) -> None:
        self.workers = workers
        self.asked: list[Any] = []
        self.asked_at = time.monotonic()

    def check(self) -> None:
        """Raise ray.exceptions.RayActorError once an actor is known to have died."""
        if self.asked:
            answered, self.asked = ray.wait(self.asked, num_returns=len(self.asked), timeout=0)
            ray.get(answered)
        elif time.monotonic() - self.asked_at > ASK_EVERY_S:
            self.asked = [worker.__ray_ready__.remote() for worker in self.workers]
            self.asked_at = time.monotonic()
