"""Disks that refuse to write: one clear message, what was committed stays, and the next try succeeds.

The refusals are the kernel's: a file-size limit that stops a write at any byte, and a folder that the
process may not write.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.checkpoints.release import Releases
from rlhf_pipeline.errors import EnvironmentProblem
from rlhf_pipeline.publish import publishing, verify

from .kill_points import NEVER, run

NOBODY = 65534
LIMITS = [*range(0, 2000, 97), *range(2000, 8000, 499)]
"""Bytes that a file may grow to: from the first byte of the smallest file to past the largest."""


def open_ledger(folder: Path) -> Ledger:
    return Ledger(folder, params_digest="abc", world_size=1, keep_newest=1)


def limited(limit: int | None) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if limit is None else limit, hard))


def refusal(limit: int, work: Callable[[], object]) -> str | None:
    """What `work` says when no file may grow beyond `limit` bytes; None when it succeeds all the same."""
    limited(limit)
    try:
        work()
    except EnvironmentProblem as problem:
        return str(problem)
    finally:
        limited(None)
    return None


def test_a_write_refused_at_any_byte_of_a_commit(tmp_path):
    """In a child, because the limit is the process's."""

    def train(folder: Path, done) -> None:
        with open_ledger(folder) as ledger:
            (ledger.begin(1) / "model.bin").write_bytes(b"w" * 100)
            ledger.commit(1, score=0.5)
            refused = 0
            for number, limit in enumerate(LIMITS, start=2):
                (ledger.begin(number) / "model.bin").write_bytes(b"w" * 100)
                commit = partial(
                    ledger.commit, number, score=0.5 + number / 1000, scores_by_prompt={"p": 0.5}
                )
                problem = refusal(limit, commit)
                refused += problem is not None
                assert problem is None or f"committing step {number} failed: File too large" in problem
                assert ledger.best() is not None
                assert ledger.restore_best().step <= number
            assert 5 < refused < len(LIMITS)
        done()

    assert run(train, tmp_path, NEVER).acknowledged == 1
    with open_ledger(tmp_path) as ledger:
        restored = ledger.resume()
        assert restored is not None
        assert restored.step == len(LIMITS) + 1


def test_a_write_refused_while_a_policy_is_promoted(tmp_path):
    def promote(workspace: Path, done) -> None:
        releases = Releases(workspace)
        for name in ("old", "new"):
            with publishing(workspace / name, {"name": name}) as work:
                (work / "model.bin").write_bytes(name.encode() * 300)
        releases.promote(workspace / "old", {})
        refused = 0
        for limit in LIMITS:
            problem = refusal(limit, lambda: releases.promote(workspace / "new", {}))
            refused += problem is not None
            assert problem is None or "failed: File too large" in problem
            assert verify(releases.link)["name"] == ("new" if problem is None else "old")
            releases.restore("v1")
        assert refused > 5
        releases.promote(workspace / "new", {})
        assert verify(releases.link)["name"] == "new"
        done()

    assert run(promote, tmp_path, NEVER).acknowledged == 1


@pytest.mark.parametrize(
    "work", [lambda folder: open_ledger(folder / "ppo" / "abc"), lambda folder: Releases(folder).restore()]
)
def test_a_folder_that_may_not_be_written(work):
    def start(folder: Path, done) -> None:
        if os.getuid() == 0:
            os.setuid(NOBODY)
        with pytest.raises(EnvironmentProblem, match=r"cannot be written: Permission denied"):
            work(folder)
        done()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        assert run(start, folder, NEVER).acknowledged == 1
        folder.chmod(0o755)
