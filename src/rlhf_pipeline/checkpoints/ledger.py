"""The ledger of one training run: begin a step's folder, commit it, resume, roll back, prune.

A step exists from the moment ledger.json names it, and not before: its files are written under writing/,
synced, given a manifest and renamed first. `adopt` does the same for trainers that insist on their own
folder. Deciding about rollbacks is ppo/rollback_rule.py's job; released policies are in release.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import CheckpointError
from .book import Book, Entry, Rolled, check_same_run, new_book, read_book, write_book
from .disk import folder_bytes, require_free, writing
from .events import EVENTS, append_event, mend_events
from .lock import FolderLock
from .restore import Restored, verified
from .retention import prunable
from .run_folder import VERL_STEPS, finite
from .view import LedgerView

Scores = Mapping[str, float]
"""Prompt id -> score, higher is better."""
State = Mapping[str, Any]
"""JSON values to go on with: KL controller, guard history, multipliers, counters."""


class Ledger(LedgerView):
    """One run's ledger, held exclusively by this process between `open` and `close`."""

    def __init__(
        self,
        folder: Path,
        *,
        params_digest: str,
        world_size: int,
        keep_newest: int,
        min_free_bytes: int = 0,
        first_save_bytes: int = 0,
        step_name: str = VERL_STEPS,
        code_commit: str | None = None,
    ) -> None:
        """Lock a run folder, mend what a kill left behind and read its ledger; begins one where none is.

        Folders of steps that were never committed are removed, and named in `Restored.ignored`.

        Args:
            folder: `.scratch/<stage>/<digest>`, on a disk that every training process shares.
            world_size: training processes; sharded checkpoints load on no other number.
            min_free_bytes: what a save must leave free on the disk.
            first_save_bytes: estimate for the first save (disk.checkpoint_bytes); later ones are measured.
            step_name: VERL_STEPS or TRL_STEPS.

        Raises:
            CheckpointError: the folder is in use, its ledger is damaged beyond its copy, or it belongs to
                other params or another world size.
            EnvironmentProblem: the folder cannot be written.
        """
        self._keep_newest = keep_newest
        self._min_free_bytes = min_free_bytes
        self._first_save_bytes = first_save_bytes
        self._code_commit = code_commit
        self._lock = FolderLock(folder)
        try:
            with writing(f"opening {folder}"):
                book, warning = read_book(folder)
                self._ignored = [warning] if warning else []
                super().__init__(folder, book or new_book(params_digest, world_size, step_name))
                check_same_run(folder, self.book, params_digest, world_size, step_name)
                if book is None or warning:
                    write_book(folder, self.book)
                self._ignored += self.files.mend(entry.step for entry in self.book.live())
                mend_events(folder / EVENTS)
                self._log_rollbacks()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process open the folder."""
        self._lock.release()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- saving

    def begin(self, step: int) -> Path:
        """An empty folder to save `step` into; its parent is what verl's trainer.default_local_dir must be.

        Raises:
            CheckpointError: the step is committed already.
            EnvironmentProblem: the disk budget does not allow another checkpoint.
        """
        self._refuse_committed(step)
        self.require_room(step)
        with writing(f"saving step {step}"):
            self.files.clear_work()
            self.files.work(step).mkdir(parents=True)
        return self.files.work(step)

    def require_room(self, step: int) -> None:
        """Ask for the disk that saving `step` takes; for trainers that write into their own folder.

        Raises:
            EnvironmentProblem: the disk budget does not allow another checkpoint.
        """
        sizes = [entry.size_bytes for entry in self.book.live()]
        require_free(
            self.files.root, max(sizes, default=self._first_save_bytes), self._min_free_bytes,
            f"saving step {step}", "ppo.checkpoints.keep_newest or ppo.checkpoints.min_free_gib",
        )  # fmt: skip

    def discard(self) -> None:
        """Drop what `begin` started, as when the step turned out bad."""
        self.files.clear_work()

    def commit(
        self,
        step: int,
        *,
        score: float | None = None,
        scores_by_prompt: Scores | None = None,
        good: bool = True,
        trainer_state: State | None = None,
    ) -> Entry:
        """Make a step that was saved into `begin`'s folder count, then prune.

        Args:
            score: validation score, higher is better; None when it comes later through `record_score`.
            scores_by_prompt: kept for the paired bootstrap.
            good: no confirmed drop and no fault; only good steps can become best or last good.
            trainer_state: comes back in `Restored.state`.

        Raises:
            CheckpointError: nothing was saved for this step.
            EnvironmentProblem: the disk failed; the steps before this one still count.
        """
        self._refuse_committed(step)
        with writing(f"committing step {step}"):
            manifest = self.files.seal(self.files.work(step), self._facts(step), trainer_state or {})
            self.files.publish(step)
            return self._enter(step, manifest, score, scores_by_prompt, good)

    def adopt(
        self,
        step: int,
        *,
        score: float | None = None,
        scores_by_prompt: Scores | None = None,
        good: bool = True,
        trainer_state: State | None = None,
    ) -> Entry:
        """`commit` for a folder that the stage's own trainer has finished writing under its final name.

        The trainer's own retention must be off (verl SFT: trainer.max_ckpt_to_keep, TRL: save_total_limit).

        Raises:
            CheckpointError: the folder is missing or empty, or the step is committed already.
            EnvironmentProblem: the disk failed; the steps before this one still count.
        """
        self._refuse_committed(step)
        with writing(f"committing step {step}"):
            manifest = self.files.seal(self.files.path(step), self._facts(step), trainer_state or {})
            return self._enter(step, manifest, score, scores_by_prompt, good)

    def record_score(
        self, step: int, score: float, scores_by_prompt: Scores | None = None, *, good: bool = True
    ) -> Entry:
        """Give a committed step the score of a validation that came after its commit."""
        entry = self.committed(step)
        with writing(f"recording the score of step {step}"):
            sha256 = self.files.write_scores(step, entry.rollbacks, scores_by_prompt)
            update = {"score": finite(score), "good": good, "scores_sha256": sha256}
            entry = entry.model_copy(update=update)
            self._save(self.book.with_entry(entry))
            self.log("scored", step, score=score, good=good)
        return entry

    def prune(self) -> list[int]:
        """Delete what retention does not pin; runs by itself after each commit. Returns the steps deleted."""
        entries = prunable(self.book, self._keep_newest)
        self._retire(entries, "pruned", f"not best, last good or newest {self._keep_newest}")
        return [entry.step for entry in entries]

    def keep_only(self, step: int) -> None:
        """Delete every step but one that was published; nothing is logged, the run's course is over."""
        book = self.book
        others = [entry for entry in book.live() if entry.step != step]
        for entry in others:
            book = book.with_state(entry, "pruned", f"step {step} was published")
        if others:
            self._save(book)
            self.files.trash(entry.step for entry in others)

    def finish(self, reason: str) -> None:
        """Record that training is over, so that the same command goes straight on to publishing."""
        self._save(self.book.model_copy(update={"finished": reason}))
        self.log("finished", None, reason=reason)

    # ---- going on

    def restore(self, step: int) -> Restored:
        """One committed step, verified file by file.

        Raises:
            CheckpointError: the step is not committed, or a file does not match.
        """
        return verified(self.files.path(step), self.committed(step), self.rollbacks, tuple(self._ignored))

    def resume(self) -> Restored | None:
        """The newest committed step that verifies, or None where nothing was committed yet.

        Damaged steps on the way are marked so in the ledger and removed.

        Raises:
            CheckpointError: steps were committed and none of them verifies.
        """
        restored = self._first_that_verifies(reversed(self.book.live()))
        if restored is not None or self._ignored:
            self.log("resumed", restored.step if restored else 0, ignored=self._ignored)
        return restored

    def restore_best(self) -> Restored:
        """The best step that verifies, for a rollback or for publishing; damaged ones are marked and removed.

        Raises:
            CheckpointError: no good, scored step was committed, or none of them verifies.
        """
        restored = self._first_that_verifies(self.book.by_score())
        if restored is None:
            raise CheckpointError(f"{self.files.root}: no good step with a validation score was committed")
        return restored

    # ---- rolling back and the log

    def mark_rolled_back(self, from_step: int, to_step: int, reason: str) -> int:
        """Give up every step after `to_step`; returns the rollbacks so far, this one included.

        Call it after `restore_best` and before training goes on. A run killed on the way resumes either
        before or after the rollback, never between.
        """
        self.committed(to_step)
        rolled = Rolled(from_step=from_step, to_step=to_step, reason=reason)
        book = self.book.model_copy(update={"rollbacks": (*self.book.rollbacks, rolled)})
        given_up = [entry for entry in book.live() if entry.step > to_step]
        with writing(f"rolling back to step {to_step}"):
            self._retire(given_up, "rolled_back", reason, book)
            self._log_rollbacks()
            self.discard()
        return self.rollbacks

    def log(self, kind: str, step: int | None, **facts: Any) -> None:
        """Append one event to events.jsonl."""
        append_event(self.files.root / EVENTS, kind, step, facts)

    # ---- inside

    def _first_that_verifies(self, entries: Iterable[Entry]) -> Restored | None:
        damaged = []
        for entry in entries:
            try:
                restored = self.restore(entry.step)
            except CheckpointError as error:
                damaged.append(entry)
                self._ignored.append(f"step {entry.step} is damaged: {error}")
                continue
            self._retire(damaged, "damaged", "did not match its manifest")
            return restored
        if damaged:
            reasons = "\n".join(f"  {line}" for line in self._ignored)
            raise CheckpointError(
                f"{self.files.root}: no committed checkpoint can be trusted\n{reasons}\n"
                "  repair the files, or delete the folder to train from the start"
            )
        return None

    def _refuse_committed(self, step: int) -> None:
        if self.book.entry(step) is not None:
            raise CheckpointError(f"{self.files.root}: step {step} is committed already")

    def _facts(self, step: int) -> dict[str, Any]:
        return {
            "step": step, "rollbacks": self.rollbacks, "world_size": self.book.world_size,
            "params_digest": self.book.params_digest, "code_commit": self._code_commit,
        }  # fmt: skip

    def _enter(
        self, step: int, manifest: str, score: float | None, by_prompt: Scores | None, good: bool
    ) -> Entry:
        entry = Entry(
            step=step, rollbacks=self.rollbacks, state="committed", score=finite(score), good=good,
            scores_sha256=self.files.write_scores(step, self.rollbacks, by_prompt), manifest_sha256=manifest,
            size_bytes=folder_bytes(self.files.path(step)), code_commit=self._code_commit, note="",
        )  # fmt: skip
        self._save(self.book.with_entry(entry))
        self.log("committed", step, score=score, good=good)
        self.prune()
        return entry

    def _retire(self, entries: list[Entry], state: Any, note: str, book: Book | None = None) -> None:
        """Change the entries' state in the ledger, then delete their folders."""
        changed = book or self.book
        for entry in entries:
            changed = changed.with_state(entry, state, note)
        if changed is not self.book:
            self._save(changed)
        for entry in entries:
            self.log(state, entry.step, reason=note)
        if entries:
            self.files.trash(entry.step for entry in entries)

    def _save(self, book: Book) -> None:
        write_book(self.files.root, book)
        self.book = book

    def _log_rollbacks(self) -> None:
        """Events for the rollbacks that the ledger knows and the log does not."""
        logged = sum(event["kind"] == "rollback" for event in self.events())
        for rolled in self.book.rollbacks[logged:]:
            self.log("rollback", rolled.from_step, to_step=rolled.to_step, reason=rolled.reason)
