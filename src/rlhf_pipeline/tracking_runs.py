"""Which tracked run a stage belongs to: its identity, what it starts from, and how far it was tracked before.

A killed stage that goes on repeats the steps after its last checkpoint. They were tracked already, so the
tracker leaves them out: one run in every backend, without duplicates. The note on this is
`logs/tracking/<group>/<stage>.run.json`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from . import paths, publish
from .params import STAGE_SECTIONS, Params, digest

PARENTS = {
    "sft": (paths.BASE_MODEL, paths.VALIDATED),
    "reward_model": (paths.SFT_MODEL, paths.VALIDATED),
    "judge": (paths.SFT_MODEL, paths.VALIDATED),
    "ppo": (paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE, paths.VALIDATED),
    "evaluate": (paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE, paths.POLICY, paths.VALIDATED),
}


def lineage(stage: str) -> dict[str, str]:
    """Folder -> sha256 of its manifest, of everything that the stage starts from and that is there."""
    manifests = {str(folder): folder / publish.MANIFEST for folder in PARENTS[stage]}
    return {name: publish.sha256_of(file) for name, file in manifests.items() if file.is_file()}


def identifier(params: Params, stage: str, group: str) -> str:
    """16 hex digits: the same for a stage that goes on, another for other params or inputs."""
    told = [params.tracking.project, group, stage, digest(params, STAGE_SECTIONS[stage]), lineage(stage)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


class Tracked:
    """How far one run was tracked; a context of its own so that every backend hears the same."""

    def __init__(self, group: str, stage: str, identifier: str) -> None:
        """Read the note of an earlier attempt; one of another run, or one that ended, does not count."""
        self._file = paths.workspace() / paths.TRACKING / group / f"{stage}.run.json"
        self._identifier = identifier
        self._done: int | None = None
        found = _read(self._file)
        self.resumed = found.get("run") == identifier and found.get("ended") is False
        if self.resumed:
            self._done = found.get("step")

    def is_new(self, step: int) -> bool:
        """Whether a step was not tracked by the attempt before; a rollback's repeated steps are new."""
        if self._done is not None and step > self._done:
            self._done = None
        return self._done is None

    def note(self, step: int | None, ended: bool = False) -> None:
        """Write down the newest tracked step, or that the run ended."""
        publish.write_json(self._file, {"run": self._identifier, "step": step, "ended": ended})


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
