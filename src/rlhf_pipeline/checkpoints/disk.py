"""The disk budget: asked before a run starts and before each save, so that neither fails half-way.

Sizes are estimates for the first save; afterwards the ledger passes what the last one really took.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import EnvironmentProblem

GIB = 1024**3
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG}
ADAM_BYTES_PER_PARAMETER = 8
"""Two float32 moments."""


def checkpoint_bytes(
    n_parameters: int, weight_bytes: int = 4, exported_bytes: int = 4, n_trained: int | None = None
) -> int:
    """Size of one model's training checkpoint: sharded weights, Adam moments and the exported HF copy.

    Args:
        n_parameters: parameters of the model.
        weight_bytes: bytes per parameter of the sharded weights (verl keeps float32 masters).
        exported_bytes: bytes per parameter of the HF export; 0 when none is written.
        n_trained: how many of them are trained, all when left out.
    """
    n_trained = n_parameters if n_trained is None else n_trained
    return n_parameters * (weight_bytes + exported_bytes) + n_trained * ADAM_BYTES_PER_PARAMETER


def run_bytes(one_checkpoint_bytes: int, keep_newest: int) -> int:
    """The most that a run's folder holds: the best, the last good, the newest, and one being written."""
    return one_checkpoint_bytes * (keep_newest + 3)


def free_bytes(path: Path) -> int:
    """Bytes that this user may still write on the disk that holds (or will hold) `path`."""
    return shutil.disk_usage(_existing(path)).free


def require_run(
    run: Path, one_checkpoint_bytes: int, keep_newest: int, min_free_bytes: int = 0, key: str | None = None
) -> None:
    """Refuse to start (or go on with) a run whose folder would not fit; what it holds already counts.

    Raises:
        EnvironmentProblem: with the figures and what to change.
    """
    there = folder_bytes(run) if run.is_dir() else 0
    needed = max(0, run_bytes(one_checkpoint_bytes, keep_newest) - there)
    require_free(run, needed, min_free_bytes, f"the {run.parent.name} run", key)


def require_free(path: Path, needed_bytes: int, min_free_bytes: int, what: str, key: str | None) -> None:
    """Refuse `what` when it would leave less than `min_free_bytes`, or when `path` is read-only.

    Raises:
        EnvironmentProblem: with the figures and the params key to change.
    """
    place = _existing(path)
    if not os.access(place, os.W_OK | os.X_OK):
        raise EnvironmentProblem(f"{what}: {place} is read-only for this user; {path} must be writable")
    free = free_bytes(path)
    if free - needed_bytes < min_free_bytes:
        raise EnvironmentProblem(
            f"{what} needs {needed_bytes / GIB:.2f} GiB at {path} and must leave"
            f" {min_free_bytes / GIB:.2f} GiB, but {free / GIB:.2f} GiB are free; make room"
            + (f", or lower {key}" if key else "")
        )


@contextmanager
def writing(what: str) -> Iterator[None]:
    """Turn a full, read-only or failing disk inside the block into one message.

    Raises:
        EnvironmentProblem: the operating system refused a write.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        place = f" at {error.filename}" if error.filename else ""
        raise EnvironmentProblem(
            f"{what} failed: {error.strerror}{place}; nothing committed is lost"
        ) from error


def folder_bytes(folder: Path) -> int:
    """Bytes of the regular files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _existing(path: Path) -> Path:
    while not path.exists():
        path = path.parent
    return path
