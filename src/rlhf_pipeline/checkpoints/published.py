"""What becomes of a run's folder once its result is published.

It stays, with the published step alone, until the next run: whoever kills the stage, or DVC before it has
recorded the outputs, gets the same result again without training. Changed code means training again, so
a run that other code has published is deleted; one that was never published goes on, whatever the code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import cache
from pathlib import Path

from ..publish import files_below, sync_folder, write_json
from .ledger import Ledger
from .lock import FolderLock

MARK = "published.json"
PACKAGE = Path(__file__).resolve().parents[1]


@cache
def code_digest() -> str:
    """16 hex digits over this package's source files."""
    sources = [path for path in files_below(PACKAGE) if path.suffix == ".py"]
    told = [
        f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources
    ]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


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
