"""One writer per folder: a lock that the kernel releases when its process dies, however it dies.

Uses flock on a file that is never deleted. Forked children close their copy of the handle, so that
an orphaned worker cannot keep a dead run's folder locked. Folders on network disks need a file
system that supports flock between machines (NFS 3 and later do).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
import weakref
from pathlib import Path
from types import TracebackType

from ..errors import CheckpointError, EnvironmentProblem

_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


class FolderLock:
    """Holds `folder/lock` from construction until `release` or the end of the process.

    Args:
        timeout_s: how long to wait for another holder before giving up.

    Raises:
        CheckpointError: another process (named in the message) holds the folder.
        EnvironmentProblem: the folder cannot be written.
    """

    def __init__(self, folder: Path, timeout_s: float = 0.0) -> None:
        self._handle: int | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise EnvironmentProblem(f"{folder} cannot be written: {error.strerror}") from None
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    owner = os.pread(handle, 200, 0).decode(errors="replace").strip() or "another process"
                    os.close(handle)
                    raise CheckpointError(
                        f"{folder} is in use by {owner}; wait for it to end, or end it, before another run"
                    ) from None
                time.sleep(0.05)
        self._handle = handle
        with contextlib.suppress(OSError):  # the lock holds on a full disk too, only without a name
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Let the folder go; harmless when already released."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _held.discard(self)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _close_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_close_in_child)
