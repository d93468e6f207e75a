"""The read side of a run's ledger, without its lock: for reports, flows and people.

A view is the ledger as it was when read; `Ledger` extends it with everything that writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import CheckpointError
from .book import Book, Entry, read_book
from .events import EVENTS, read_events
from .run_folder import RunFolder


class LedgerView:
    """What a run has committed, scored and gone through."""

    def __init__(self, folder: Path, book: Book) -> None:
        self.files = RunFolder(folder, book.step_name)
        self.book = book

    @classmethod
    def read(cls, folder: Path) -> LedgerView | None:
        """The ledger of a run folder, or None where no run has begun.

        Raises:
            CheckpointError: the ledger exists and neither of its copies can be trusted.
        """
        book, _ = read_book(folder)
        return None if book is None else LedgerView(folder, book)

    def best(self) -> Entry | None:
        """The good step with the highest score."""
        return self.book.best()

    def last_good(self) -> Entry | None:
        """The newest step without a confirmed drop or fault."""
        return self.book.last_good()

    def committed(self, step: int) -> Entry:
        """The entry of a committed step.

        Raises:
            CheckpointError: naming the steps that are committed.
        """
        entry = self.book.entry(step)
        if entry is None:
            steps = [entry.step for entry in self.book.live()]
            raise CheckpointError(f"{self.files.root}: step {step} is not committed; committed are {steps}")
        return entry

    @property
    def rollbacks(self) -> int:
        """Rollbacks carried out so far."""
        return len(self.book.rollbacks)

    @property
    def finished(self) -> str | None:
        """Why training ended, when it did."""
        return self.book.finished

    def states(self) -> dict[int, str]:
        """State of every step: writing, best, last_good, committed, rolled_back, pruned or damaged."""
        states: dict[int, str] = {entry.step: entry.state for entry in self.book.entries}
        states |= {entry.step: "committed" for entry in self.book.live()}
        for name, entry in (("last_good", self.last_good()), ("best", self.best())):
            if entry is not None:
                states[entry.step] = name
        states |= dict.fromkeys(self.files.steps_in(self.files.root / "writing"), "writing")
        return dict(sorted(states.items()))

    def scores_of(self, step: int) -> dict[str, float]:
        """Scores by prompt of a committed step; empty when none were given.

        Raises:
            CheckpointError: the step is not committed, or its file does not match its checksum.
        """
        entry = self.committed(step)
        if entry.scores_sha256 is None:
            return {}
        return self.files.read_scores(step, entry.rollbacks, entry.scores_sha256)

    def events(self) -> list[dict[str, Any]]:
        """Every event so far, in order, as logged (see events.effective_events)."""
        return read_events(self.files.root / EVENTS)
