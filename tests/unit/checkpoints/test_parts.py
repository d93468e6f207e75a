"""Events, retention, disk budget and the tidying of other runs."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from rlhf_pipeline.checkpoints import disk, published
from rlhf_pipeline.checkpoints.book import Entry, new_book
from rlhf_pipeline.checkpoints.events import append_event, effective_events, mend_events, read_events
from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.checkpoints.lock import FolderLock
from rlhf_pipeline.checkpoints.retention import bound_runs, prunable
from rlhf_pipeline.errors import CheckpointError, EnvironmentProblem


def entry(step: int, score: float | None, good: bool = True) -> Entry:
    return Entry(
        step=step, rollbacks=0, state="committed", score=score, good=good, scores_sha256=None,
        manifest_sha256="", size_bytes=0, code_commit=None, note="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("keep_newest", "gone"),
    [(0, [1, 3]), (1, [1, 3]), (2, [1, 3]), (3, [1]), (9, [])],
)
def test_what_may_be_pruned(keep_newest, gone):
    book = new_book("d", 1, "global_step_{step}")
    for one in (entry(1, 0.1), entry(2, 0.9), entry(3, 0.2), entry(4, 0.3), entry(5, None, good=False)):
        book = book.with_entry(one)
    assert [one.step for one in prunable(book, keep_newest)] == gone


def test_a_torn_event_is_cut_off_and_the_rest_kept(tmp_path: Path):
    log = tmp_path / "events.jsonl"
    append_event(log, "alarm", 3, {"value": float("nan"), "window": (1, 2)})
    whole = log.read_bytes()
    log.write_bytes(whole + whole[:20])
    mend_events(log)
    append_event(log, "alarm", 4, {})
    events = read_events(log)
    assert [(event["kind"], event["step"]) for event in events] == [("alarm", 3), ("alarm", 4)]
    assert events[0]["value"] is None
    assert events[0]["window"] == [1, 2]


def test_replayed_steps_count_once_and_rollbacks_stay():
    def happened(*events):
        return [{"kind": kind, "step": step} for kind, step in events]

    log = happened(
        ("alarm", 2),
        ("alarm", 5),
        ("resumed", 4),
        ("alarm", 5),
        ("rollback", 6),
        ("alarm", 3),
        ("resumed", 2),
    )
    assert effective_events(log) == happened(
        ("alarm", 2), ("resumed", 4), ("alarm", 5), ("rollback", 6), ("resumed", 2)
    )


def test_other_runs_are_bounded_and_one_in_use_stays(tmp_path: Path):
    for number, name in enumerate(("oldest", "old", "newer", "mine")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.json").write_text("{}")
        os.utime(tmp_path / name / "ledger.json", (time.time() + number,) * 2)
    with FolderLock(tmp_path / "oldest"):
        assert bound_runs(tmp_path, tmp_path / "mine", keep_others=1) == [tmp_path / "old"]
    assert bound_runs(tmp_path, tmp_path / "mine", keep_others=1) == [tmp_path / "oldest"]
    assert bound_runs(tmp_path / "absent", tmp_path, keep_others=0) == []


def test_a_run_whose_ledger_lies_below_is_known_too(tmp_path: Path):
    (tmp_path / "run" / "ledger").mkdir(parents=True)
    with FolderLock(tmp_path / "run" / "ledger"):
        assert bound_runs(tmp_path, tmp_path / "mine", keep_others=0) == []
    assert bound_runs(tmp_path, tmp_path / "mine", keep_others=0) == [tmp_path / "run"]


def test_disk_figures_by_hand():
    # 1,000 parameters: 4 bytes of weights, 8 of Adam, 4 of the export.
    assert disk.checkpoint_bytes(1000) == 16_000
    assert disk.checkpoint_bytes(1000, exported_bytes=0) == 12_000
    assert disk.checkpoint_bytes(1000, n_trained=0) == 8_000
    assert disk.run_bytes(16_000, keep_newest=2) == 80_000


def test_the_budget_counts_what_is_needed(tmp_path: Path):
    place = tmp_path / "not" / "yet" / "there"
    disk.require_free(place, 0, 0, "a run", "key")
    free = disk.free_bytes(place)
    with pytest.raises(EnvironmentProblem, match=r"^a run needs .* lower ppo\.x$"):
        disk.require_free(place, free, 1024**2, "a run", "ppo.x")


def test_a_run_that_would_not_fit_does_not_start_and_what_it_holds_counts(tmp_path: Path):
    run = tmp_path / "ppo" / "abc"
    one = disk.free_bytes(tmp_path) // 5 + 2**20  # five of them do not fit
    with pytest.raises(EnvironmentProblem, match=r"^the ppo run needs .* make room, or lower ppo\.x$"):
        disk.require_run(run, one, keep_newest=2, key="ppo.x")
    disk.require_run(run, one, keep_newest=1)
    run.mkdir(parents=True)
    with (run / "checkpoint").open("wb") as file:
        file.truncate(5 * one)  # sparse: it holds no block
    disk.require_run(run, one, keep_newest=2)


def test_a_published_run_is_kept_for_the_same_code_and_one_step_of_it(tmp_path: Path, monkeypatch):
    run = tmp_path / "abc"
    with Ledger(run / "ledger", params_digest="d", world_size=1, keep_newest=2) as ledger:
        for step in (1, 2, 3):
            (ledger.begin(step) / "weights").write_text(str(step))
            ledger.commit(step, score=1.0 / step)
        ledger.finish("all steps done")
        assert not published.forget_published(run), "it was never published"
        published.mark_published(run, ledger, 1)
        assert [entry.step for entry in ledger.book.live()] == [1]
        assert [path.name for path in (run / "ledger").glob("global_step_*")] == ["global_step_1"]
        assert not published.forget_published(run)
        monkeypatch.setattr(published, "code_digest", lambda: "other code")
        with pytest.raises(CheckpointError, match="in use by"):
            published.forget_published(run)
    assert published.forget_published(run)
    assert list(tmp_path.iterdir()) == []
    assert not published.forget_published(run)


def test_a_deletion_that_was_interrupted_is_finished(tmp_path: Path):
    (tmp_path / ".abc.gone" / "ledger").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    assert bound_runs(tmp_path, tmp_path / "mine", keep_others=1) == [tmp_path / ".abc.gone"]


def test_a_full_disk_is_one_message_and_other_errors_pass():
    with (
        pytest.raises(EnvironmentProblem, match="saving step 3 failed: No space left on device"),
        disk.writing("saving step 3"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(FileNotFoundError), disk.writing("x"):
        raise FileNotFoundError(errno.ENOENT, "gone")
