"""Copies a file the cheapest safe way: a reflink, else a hard link, else bytes. Linux only for the first.

Small files are always copied, so that editing one in place (a config by hand) cannot change both.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Literal

FICLONE = 0x40049409
"""The ioctl that makes two files share their blocks until one is written (btrfs, xfs)."""
ALWAYS_COPIED_BYTES = 1024 * 1024
_NOT_SUPPORTED = {
    errno.EOPNOTSUPP,
    errno.ENOTTY,
    errno.EINVAL,
    errno.EXDEV,
    errno.ENOSYS,
    errno.EPERM,
    errno.EMLINK,
}


def link_or_copy(source: Path, target: Path) -> Literal["reflink", "hardlink", "copy"]:
    """Make `target` a file with the content of `source`; symbolic links are followed. Says how."""
    source = source.resolve()
    if source.stat().st_size >= ALWAYS_COPIED_BYTES:
        if _reflink(source, target):
            return "reflink"
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return "hardlink"
    shutil.copyfile(source, target)
    return "copy"


def _reflink(source: Path, target: Path) -> bool:
    with source.open("rb") as reading, target.open("wb") as writing:
        try:
            fcntl.ioctl(writing.fileno(), FICLONE, reading.fileno())
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
        else:
            return True
    target.unlink()
    return False
