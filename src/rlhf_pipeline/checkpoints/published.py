"""What becomes of a run's folder once its result is published.

It stays, with the published step alone, until the next run: whoever kills the stage, or DVC before it has
recorded the outputs, gets the same result again without training. Changed code means training again, so
a run that other code has published is deleted; one that was never published goes on, whatever the code.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from ..publish import sync_folder, write_json
from .code import code_digest
from .ledger import Ledger
from .lock import FolderLock

MARK = "published.json"


def mark_published(run: Path, ledger: Ledger, step: int) -> None:
    """Keep the published step alone and write down which code published it."""
    ledger.keep_only(step)
    write_json(run / MARK, {"code": code_digest(), "step": step})


def forget_published(run: Path) -> bool:
    """Delete a run that other code has published, in one move. Says whether it did.

    Raises:
        CheckpointError: another process holds the run.
    """
    mark = run / MARK
    if not mark.is_file() or json.loads(mark.read_text(encoding="utf-8"))["code"] == code_digest():
        return False
    gone = run.with_name(f".{run.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    with FolderLock(run / "ledger"):
        os.replace(run, gone)
    sync_folder(run.parent)
    shutil.rmtree(gone)
    return True
