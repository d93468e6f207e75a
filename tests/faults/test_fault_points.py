"""The moments at which the long suite kills: each is hit where its name says, in a small real ledger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.checkpoints.view import LedgerView
from rlhf_pipeline.publish import verify

INJECT = Path(__file__).parent / "inject"
SAVE_TWICE = """
import sys, time
from pathlib import Path
from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.publish import publishing
run = Path(sys.argv[1])
with Ledger(run, params_digest="d", world_size=1, keep_newest=2) as ledger:
    ledger.resume()
    for step in (1, 2):
        (ledger.begin(step) / "weights").write_text("w" * step)
        time.sleep(0.05)
        ledger.commit(step, score=float(step))
    ledger.restore_best()
    ledger.mark_rolled_back(2, 1, "asked for") if "--rollback" in sys.argv else None
with publishing(run / "out", {}) as out:
    (out / "model").write_text("m")
(run / "curve").write_text("c")
"""


def run_with(fault: str, run: Path, *more: str) -> int:
    environment = {**os.environ, "FAULT": fault, "PYTHONPATH": str(INJECT)}
    return subprocess.run([sys.executable, "-c", SAVE_TWICE, str(run), *more], env=environment).returncode


@pytest.mark.parametrize(
    ("point", "committed", "saving", "manifest", "in_place"),
    [
        ("in_files@2", [1], True, False, False),
        ("before_manifest@2", [1], True, False, False),
        ("before_rename@2", [1], True, True, False),
        ("before_pointer@2", [1], False, True, True),
        ("between_copies@2", [1], False, True, True),
        ("after_pointer@2", [1, 2], False, True, True),
    ],
)
def test_a_save_is_killed_at_its_moment_and_the_next_run_goes_on(
    point: str, committed: list[int], saving: bool, manifest: bool, in_place: bool, tmp_path: Path
) -> None:
    assert run_with(point, tmp_path) == -signal.SIGKILL
    left = LedgerView.read(tmp_path)
    assert left is not None
    assert [entry.step for entry in left.book.live()] == committed
    assert (tmp_path / "writing/global_step_2").exists() == saving
    assert (tmp_path / "global_step_2").exists() == in_place
    folder = tmp_path / ("global_step_2" if in_place else "writing/global_step_2")
    assert (folder / "manifest.json").exists() == manifest
    with Ledger(tmp_path, params_digest="d", world_size=1, keep_newest=1) as ledger:
        restored = ledger.resume()
        assert restored is not None
        assert restored.step == committed[-1]


@pytest.mark.parametrize(("point", "rollbacks"), [("rollback_chosen", 0), ("rollback_marked", 1)])
def test_a_rollback_is_killed_before_or_after_it_counts(point: str, rollbacks: int, tmp_path: Path) -> None:
    assert run_with(point, tmp_path, "--rollback") == -signal.SIGKILL
    left = LedgerView.read(tmp_path)
    assert left is not None
    assert left.rollbacks == rollbacks


@pytest.mark.parametrize(("point", "shown"), [("publish_writing", False), ("publish_renamed", True)])
def test_publishing_is_killed_before_or_after_the_rename(point: str, shown: bool, tmp_path: Path) -> None:
    assert run_with(point, tmp_path) == -signal.SIGKILL
    assert (tmp_path / "out").exists() == shown
    assert not (tmp_path / "curve").exists()
    if shown:
        verify(tmp_path / "out")


def test_without_a_fault_nothing_is_killed(tmp_path: Path) -> None:
    assert run_with("", tmp_path, "--rollback") == 0
    assert (tmp_path / "curve").exists()
