"""Which checkpoints may go: everything but the best, the last good and the newest k.

Decides from the ledger alone, so the answer is the same after a restart. `bound_runs` does the same
one level up, for the folders that earlier params left behind.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import CheckpointError
from .book import LEDGER, Book, Entry
from .lock import FolderLock


def prunable(book: Book, keep_newest: int) -> list[Entry]:
    """The committed entries that nothing pins, oldest first.

    The best step, the last good step and the newest `keep_newest` (at least 1) stay.
    """
    live = book.live()
    pinned = {entry.step for entry in live[-max(1, keep_newest) :]}
    pinned |= {entry.step for entry in (book.best(), book.last_good()) if entry is not None}
    return [entry for entry in live if entry.step not in pinned]


def bound_runs(stage_folder: Path, current: Path, keep_others: int) -> list[Path]:
    """Delete the runs of other params of one stage, but for the `keep_others` most recently written.

    The ledger of a run lies in its folder or in `ledger/` below; a run that is in use stays. Returns the
    folders that were deleted.
    """
    if not stage_folder.is_dir():
        return []
    others = [
        path for path in stage_folder.iterdir() if path.is_dir() and path.resolve() != current.resolve()
    ]
    deleted = [path for path in others if path.name.startswith(".")]  # a deletion that was interrupted
    for path in deleted:
        shutil.rmtree(path)
    others = sorted(set(others) - set(deleted), key=_last_written, reverse=True)
    for path in others[keep_others:]:
        try:
            with FolderLock(_ledger_folder(path)):
                shutil.rmtree(path)
        except CheckpointError:
            continue
        deleted.append(path)
    return deleted


def _ledger_folder(run: Path) -> Path:
    below = run / "ledger"
    return below if below.is_dir() else run


def _last_written(run: Path) -> float:
    ledger = _ledger_folder(run) / LEDGER
    return (ledger if ledger.exists() else run).stat().st_mtime
