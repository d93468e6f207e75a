"""The files of one run folder: names, sealing a step with a manifest, scores, trash, mending after a kill.

Layout: ledger.json (+ backup), events.jsonl, lock, scores/, writing/ (a step being saved), trash/
(folders on their way out), and one folder per step, named so that the stage's trainer can load it as it
is. Knows nothing of states; what counts is in book.py.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from ..publish import MANIFEST, files_below, sha256_of, sync_folder, sync_tree, write_json, write_manifest

VERL_STEPS = "global_step_{step}"
TRL_STEPS = "checkpoint-{step}"
STATE_FILE = "ledger_state.json"
"""Inside a step's folder: the JSON state that its commit was given."""


class RunFolder:
    """Paths and file operations below `root`; `step_name` is VERL_STEPS or TRL_STEPS."""

    def __init__(self, root: Path, step_name: str) -> None:
        self.root = root
        self._step_name = step_name

    def name(self, step: int) -> str:
        """Folder name of a step."""
        return self._step_name.format(step=step)

    def path(self, step: int) -> Path:
        """Where a committed step lies."""
        return self.root / self.name(step)

    def work(self, step: int) -> Path:
        """Where a step is written before its commit."""
        return self.root / "writing" / self.name(step)

    def step_of(self, name: str) -> int | None:
        """The step that a folder name stands for."""
        head, _, tail = self._step_name.partition("{step}")
        middle = name.removeprefix(head).removesuffix(tail)
        return int(middle) if middle.isdecimal() and self.name(int(middle)) == name else None

    def steps_in(self, folder: Path) -> list[int]:
        """The steps that have a folder in `folder`, ascending."""
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return sorted(step for name in names if (step := self.step_of(name)) is not None)

    def clear_work(self) -> None:
        """Delete what was being written."""
        shutil.rmtree(self.root / "writing", ignore_errors=True)

    def seal(self, folder: Path, facts: Mapping[str, Any], state: Mapping[str, Any]) -> str:
        """Write a step's state file and manifest, sync everything, and return the manifest's sha256.

        Raises:
            CheckpointError: the folder is missing or holds no file.
        """
        if not folder.is_dir() or not files_below(folder):
            raise CheckpointError(f"{folder} is missing or empty: a step is committed after it was saved")
        write_json(folder / STATE_FILE, dict(state))
        write_manifest(folder, facts)
        sync_tree(folder)
        return sha256_of(folder / MANIFEST)

    def publish(self, step: int) -> None:
        """Move a sealed step from writing/ to its place."""
        os.replace(self.work(step), self.path(step))
        sync_folder(self.root)
        self.clear_work()

    def write_scores(self, step: int, rollbacks: int, by_prompt: Mapping[str, float] | None) -> str | None:
        """Keep per-prompt scores; returns the file's sha256. Non-finite scores become null."""
        if by_prompt is None:
            return None
        path = self._scores(step, rollbacks)
        write_json(path, {prompt: finite(score) for prompt, score in by_prompt.items()})
        return sha256_of(path)

    def read_scores(self, step: int, rollbacks: int, sha256: str) -> dict[str, float]:
        """Per-prompt scores of a step; null reads as NaN.

        Raises:
            CheckpointError: the file does not match its sha256.
        """
        path = self._scores(step, rollbacks)
        if not path.is_file() or sha256_of(path) != sha256:
            raise CheckpointError(f"{path} is missing or does not match its sha256 in the ledger")
        scores = json.loads(path.read_text(encoding="utf-8"))
        return {prompt: math.nan if score is None else score for prompt, score in scores.items()}

    def trash(self, steps: Iterable[int]) -> None:
        """Delete steps' folders; each leaves its name in one move, so no half-deleted step keeps it."""
        trash = self.root / "trash"
        shutil.rmtree(trash, ignore_errors=True)
        trash.mkdir()
        for step in steps:
            if self.path(step).exists():
                os.replace(self.path(step), trash / self.name(step))
        shutil.rmtree(trash, ignore_errors=True)

    def mend(self, committed: Iterable[int]) -> list[str]:
        """Remove what a killed run left: unfinished saves, steps that no commit names, temporary files.

        Returns one sentence for each step that was dropped.
        """
        dropped = [
            f"{self.name(step)} was being written when the run ended; it was never committed"
            for step in self.steps_in(self.root / "writing")
        ]
        self.clear_work()
        shutil.rmtree(self.root / "trash", ignore_errors=True)
        for pattern in (".*.writing-*", "scores/.*.writing-*"):
            for path in self.root.glob(pattern):
                path.unlink()
        stray = sorted(set(self.steps_in(self.root)) - set(committed))
        if stray:
            self.trash(stray)
        return dropped + [f"{self.name(step)} was saved but never committed" for step in stray]

    def _scores(self, step: int, rollbacks: int) -> Path:
        return self.root / "scores" / f"step_{step}_after_{rollbacks}_rollbacks.json"


def finite(value: float | None) -> float | None:
    """The value, or None when it is NaN or infinite (JSON has no such numbers)."""
    return float(value) if value is not None and math.isfinite(value) else None
