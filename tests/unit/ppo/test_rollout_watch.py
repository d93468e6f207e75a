"""A failed prompt and a dead worker end the run; real Ray actors, verl's buffer as the watch sees it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from typing import Any

import pytest

from rlhf_pipeline.errors import StageError
from rlhf_pipeline.ppo import rollout_watch

pytestmark = pytest.mark.slow


class Buffer:
    """What `watch_rollouts` uses of verl's ReplayBuffer."""

    def __init__(self) -> None:
        self.failure_keys: dict[str, set[str]] = {"train": set(), "val": set()}
        self.looks = 0

    def _sync_metadata_from_transfer_queue(self) -> None:
        self.looks += 1


def test_a_failed_prompt_ends_the_run_at_the_next_look() -> None:
    buffer: Any = Buffer()
    rollout_watch.watch_rollouts(buffer, [])
    buffer._sync_metadata_from_transfer_queue()
    buffer.failure_keys["val"].add("uid")
    with pytest.raises(StageError, match="1 prompts got no response"):
        buffer._sync_metadata_from_transfer_queue()
    assert buffer.looks == 2


def test_verl_still_looks_where_the_watch_stands() -> None:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    source = inspect.getsource(ReplayBuffer)
    assert "self._sync_metadata_from_transfer_queue()" in inspect.getsource(ReplayBuffer.sample)
    assert "self.failure_keys[partition_id].add(key)" in source


@pytest.fixture
def workers(tmp_path_factory: Any) -> Iterator[list[Any]]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)

    class Worker:
        async def wait(self) -> None:
            return None

    actor: Any = ray.remote(num_cpus=0)(Worker)
    yield [actor.remote() for _ in range(2)]
    ray.shutdown()


def test_a_dead_worker_is_noticed_and_living_ones_are_not_waited_for(
    workers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    monkeypatch.setattr(rollout_watch, "ASK_EVERY_S", 0.1)
    ray.get([worker.wait.remote() for worker in workers])
    alive = rollout_watch.Liveness(workers)
    keep_checking(alive, seconds=1)
    ray.kill(workers[0])
    with pytest.raises(ray.exceptions.RayActorError):
        keep_checking(alive, seconds=30)


def keep_checking(alive: rollout_watch.Liveness, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        alive.check()
        time.sleep(0.05)
