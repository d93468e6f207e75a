"""A committed step, proved file by file before anything loads it.

verl's checkpoints are pickles: they are loaded only from a folder that passed `verified`. Choosing the
step is the ledger's job.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..publish import MANIFEST, sha256_of, verify
from .book import Entry
from .run_folder import STATE_FILE


@dataclass(frozen=True)
class Restored:
    """A verified checkpoint to load."""

    step: int
    folder: Path
    entry: Entry
    state: dict[str, Any]
    """What `commit` was given as trainer_state."""
    pending_rollbacks: int
    """Rollbacks since it was saved: apply rollback.kl_coef_factor and lr_factor so many times to `state`."""
    ignored: tuple[str, ...]
    """What was passed over on the way here, one sentence each."""


def verified(folder: Path, entry: Entry, rollbacks: int, ignored: tuple[str, ...]) -> Restored:
    """The step in `folder`, after every file was compared with the manifest and that with the ledger.

    Raises:
        CheckpointError: naming the first file that is missing, changed or not listed.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file() or sha256_of(manifest) != entry.manifest_sha256:
        raise CheckpointError(f"{manifest} is missing or does not match its sha256 in the ledger")
    verify(folder)
    state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
    return Restored(entry.step, folder, entry, state, rollbacks - entry.rollbacks, ignored)
