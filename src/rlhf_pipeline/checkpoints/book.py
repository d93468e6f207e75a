"""The ledger's page: which steps exist, their scores and states, and which is best.

Plain values and pure queries only; how the page is kept is record_file.py's job, files and folders are
ledger.py's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from ..errors import CheckpointError
from .record_file import Record, VersionedRecord, read_record, write_record

FORMAT_VERSION = 1
LEDGER = "ledger.json"

State = Literal["committed", "rolled_back", "pruned", "damaged"]


class Entry(Record):
    """One committed step. After a rollback the same step can be committed again, under more rollbacks."""

    step: int
    rollbacks: int
    """Rollbacks the run had gone through when this step was saved."""
    state: State
    score: float | None
    """Validation score, higher is better; None before validation or when it was not finite."""
    good: bool
    """No confirmed drop and no fault was found at this step."""
    scores_sha256: str | None
    """sha256 of the per-prompt scores file."""
    manifest_sha256: str
    size_bytes: int
    code_commit: str | None
    note: str
    """Why the state changed, for people."""


class Rolled(Record):
    """One rollback that was carried out."""

    from_step: int
    to_step: int
    reason: str


class Book(VersionedRecord):
    """Everything the ledger knows about a run."""

    params_digest: str
    world_size: int
    step_name: str
    entries: tuple[Entry, ...]
    rollbacks: tuple[Rolled, ...]
    finished: str | None
    """Why training ended, when it did."""

    def live(self) -> list[Entry]:
        """The committed entries, oldest step first."""
        return sorted(
            (entry for entry in self.entries if entry.state == "committed"), key=lambda entry: entry.step
        )

    def entry(self, step: int) -> Entry | None:
        """The committed entry of a step."""
        return next((entry for entry in self.live() if entry.step == step), None)

    def best(self) -> Entry | None:
        """The good entry with the highest score."""
        return next(iter(self.by_score()), None)

    def by_score(self) -> list[Entry]:
        """The good, scored entries, best first; of equals the earliest, which drifted least."""
        scored = [
            (-entry.score, entry.step, entry)
            for entry in self.live()
            if entry.good and entry.score is not None
        ]
        return [entry for *_, entry in sorted(scored)]

    def last_good(self) -> Entry | None:
        """The newest entry without a confirmed drop or fault."""
        return next((entry for entry in reversed(self.live()) if entry.good), None)

    def with_entry(self, entry: Entry) -> Book:
        """The book with one entry added, or replaced when the same step and rollback count exist."""
        key = (entry.step, entry.rollbacks)
        others = tuple(other for other in self.entries if (other.step, other.rollbacks) != key)
        return self.model_copy(update={"entries": (*others, entry)})

    def with_state(self, entry: Entry, state: State, note: str) -> Book:
        """The book with one entry's state changed."""
        return self.with_entry(entry.model_copy(update={"state": state, "note": note}))


def new_book(params_digest: str, world_size: int, step_name: str) -> Book:
    """The ledger of a run that has saved nothing."""
    return Book(
        format_version=FORMAT_VERSION,
        params_digest=params_digest,
        world_size=world_size,
        step_name=step_name,
        entries=(),
        rollbacks=(),
        finished=None,
    )


def check_same_run(folder: Path, book: Book, params_digest: str, world_size: int, step_name: str) -> None:
    """Refuse to go on with a run of other params, another world size or another kind of trainer.

    Raises:
        CheckpointError: with what was found, what was expected and what to change.
    """
    if book.world_size != world_size:
        raise CheckpointError(
            f"{folder} was written by {book.world_size} training processes and this run has {world_size}: its"
            f" sharded checkpoints cannot be loaded; set hardware.n_gpus_per_node x hardware.nnodes back to"
            f" {book.world_size}, or delete the folder to train from the start"
        )
    if book.params_digest != params_digest:
        raise CheckpointError(
            f"{folder} belongs to params {book.params_digest}, this run has {params_digest};"
            " delete the folder to train from the start"
        )
    if book.step_name != step_name:
        raise CheckpointError(f"{folder} names its steps {book.step_name!r}, this run {step_name!r}")


def write_book(folder: Path, book: Book) -> None:
    """Replace the ledger of a run folder."""
    write_record(folder / LEDGER, book)


def read_book(folder: Path) -> tuple[Book | None, str | None]:
    """The ledger of a run folder (None before a run), and a warning when only its copy was readable.

    Raises:
        CheckpointError: the ledger exists and neither copy can be trusted, or its format is unknown.
    """
    return read_record(folder / LEDGER, Book, FORMAT_VERSION, "or delete the folder to train from the start")
