"""One run at a time in a workspace and on a GPU; the next one waits and says for whom.

Locks are files that the kernel frees when their process dies. A run without a choice of GPUs takes all
of them; on a CPU there is one place. Plain `dvc repro` does not take them: DVC's own lock keeps two out
of one workspace.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rlhf_pipeline.checkpoints.lock import FolderLock
from rlhf_pipeline.errors import CheckpointError, ParamsError

LOCKS = Path(".rlhf/locks")
POLL_S = 1.0
_NVIDIA = Path("/proc/driver/nvidia/gpus")


@contextmanager
def run_locks(
    home: Path, folder: Path, gpus: Sequence[int] | None, wait: bool, on_wait: Callable[[str], None]
) -> Iterator[bool]:
    """Hold the places a run needs; yields False at once when one is taken and `wait` is off.

    `home` is the main workspace, whose runs share the machine; `folder` the workspace of this run.
    While it waits, `on_wait` is called about once a second with the reason.

    Raises:
        ParamsError: for a GPU that this machine does not have.
    """
    places = [home / LOCKS / name for name in device_places(gpus)]
    places.append(folder / LOCKS / "workspace")
    with ExitStack() as held:
        for place in sorted(places):
            if not _take(held, place, wait, on_wait):
                yield False
                return
        yield True


def _take(held: ExitStack, place: Path, wait: bool, on_wait: Callable[[str], None]) -> bool:
    while True:
        try:
            held.enter_context(FolderLock(place))
        except CheckpointError as error:
            if not wait:
                return False
            on_wait(f"waiting for another run: {error}")
            time.sleep(POLL_S)
        else:
            return True


def device_places(gpus: Sequence[int] | None) -> list[str]:
    """Names of the places on this machine that a run on these GPUs takes (None: all of them)."""
    found = len(list(_NVIDIA.iterdir())) if _NVIDIA.is_dir() else 0
    if gpus is None:
        return [f"gpu-{index}" for index in range(found)] or ["cpu"]
    missing = [index for index in gpus if not 0 <= index < found]
    if missing or not gpus:
        raise ParamsError(f"gpus: {list(gpus)}, but this machine has {found} NVIDIA GPUs")
    return [f"gpu-{index}" for index in sorted(set(gpus))]


def visible_devices(gpus: Sequence[int] | None) -> dict[str, str]:
    """The environment that shows a run only its GPUs."""
    if gpus is None:
        return {}
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = given.split(",") if given else [str(index) for index in range(max(gpus) + 1)]
    return {"CUDA_VISIBLE_DEVICES": ",".join(names[index] for index in sorted(set(gpus)))}
