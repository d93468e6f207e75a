"""SIGKILL at every write of ledger, publish and releases: nothing acknowledged is lost, nothing half shown.

Each test prints its kills by file operation; run it with -rP to see them.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.checkpoints.links import ALWAYS_COPIED_BYTES
from rlhf_pipeline.checkpoints.release import Releases
from rlhf_pipeline.checkpoints.run_folder import TRL_STEPS
from rlhf_pipeline.checkpoints.view import LedgerView
from rlhf_pipeline.publish import publishing, verify

from .kill_points import Tally, every_kill


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: SIGKILL keeps what the kernel has, whatever the disk."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="kills-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


# ---- the ledger of a run


def open_ledger(run: Path, step_name: str = "global_step_{step}") -> Ledger:
    return Ledger(run, params_digest="abc", world_size=1, keep_newest=1, step_name=step_name)


def save(ledger: Ledger, step: int, score: float, good: bool = True) -> None:
    work = ledger.begin(step)
    (work / "actor").mkdir()
    (work / "actor" / "model.bin").write_bytes(b"w" * step)
    state = {"step": step, "rollbacks": ledger.rollbacks}
    ledger.commit(step, score=score, scores_by_prompt={"p": score}, good=good, trainer_state=state)


def begun(run: Path) -> None:
    with open_ledger(run) as ledger:
        save(ledger, 1, 0.5)


def train(run: Path, done) -> None:
    """Five saves with pruning, one bad step, one rollback; STATES says what holds after each `done`."""
    with open_ledger(run) as ledger:
        assert ledger.resume() is not None
        save(ledger, 2, 0.9)
        done()
        save(ledger, 3, 0.8)
        done()
        save(ledger, 4, 0.2, good=False)
        done()
        ledger.mark_rolled_back(4, 2, "score fell")
        done()
        save(ledger, 3, 0.95)
        done()
        ledger.finish("all steps done")
        done()


# Step to resume at, best step, its score, rollbacks, finished: after so many operations.
STATES = [
    (1, 1, 0.5, 0, None),
    (2, 2, 0.9, 0, None),
    (3, 2, 0.9, 0, None),
    (4, 2, 0.9, 0, None),
    (2, 2, 0.9, 1, None),
    (3, 3, 0.95, 1, None),
    (3, 3, 0.95, 1, "all steps done"),
]


def observed(ledger: Ledger) -> tuple:
    restored, best = ledger.resume(), ledger.best()
    assert restored is not None
    assert best is not None
    assert restored.state == {"step": restored.step, "rollbacks": restored.entry.rollbacks}
    assert ledger.scores_of(best.step) == {"p": best.score}
    return restored.step, best.step, best.score, ledger.rollbacks, ledger.finished


def test_kills_in_a_run(folder):
    tally = Tally("ledger")
    for run, outcome in every_kill(train, begun, folder):
        assert LedgerView.read(run) is not None, "readable without the lock, before anything is mended"
        with open_ledger(run) as ledger:
            state = observed(ledger)
            possible = STATES[outcome.acknowledged : outcome.acknowledged + 2]
            assert state in possible, f"{outcome}: {state} is neither of {possible}"
            on_disk = {path.name for path in run.iterdir()}
            committed = {f"global_step_{entry.step}" for entry in ledger.book.live()}
            known = {"ledger.json", "ledger.backup.json", "events.jsonl", "scores", "lock"}
            assert on_disk - known == committed
            rollbacks = [event for event in ledger.events() if event["kind"] == "rollback"]
            assert len(rollbacks) == ledger.rollbacks
            save(ledger, 50, 0.99)
            assert observed(ledger)[:2] == (50, 50)
        tally.add(outcome, took_effect=state != possible[0])
    print(tally)
    assert tally.total >= 200


def adopted_once(run: Path) -> None:
    with open_ledger(run, TRL_STEPS) as ledger:
        (run / "checkpoint-1").mkdir()
        (run / "checkpoint-1" / "model.safetensors").write_bytes(b"one")
        ledger.adopt(1, score=0.1)


def adopt_two_more(run: Path, done) -> None:
    with open_ledger(run, TRL_STEPS) as ledger:
        for step in (2, 3):
            (run / f"checkpoint-{step}").mkdir()
            (run / f"checkpoint-{step}" / "model.safetensors").write_bytes(b"more")
            ledger.adopt(step)
            ledger.record_score(step, 0.1 * step)
            done()


def test_kills_while_other_trainers_folders_are_adopted(folder):
    tally = Tally("adopted checkpoints")
    for run, outcome in every_kill(adopt_two_more, adopted_once, folder):
        with open_ledger(run, TRL_STEPS) as ledger:
            restored = ledger.resume()
            assert restored is not None
            assert restored.step in (outcome.acknowledged + 1, outcome.acknowledged + 2)
            present = {path.name for path in run.glob("checkpoint-*")}
            assert present == {f"checkpoint-{entry.step}" for entry in ledger.book.live()}
        tally.add(outcome, took_effect=restored.step > outcome.acknowledged + 1)
    print(tally)
    assert tally.total >= 200


# ---- a stage's output


def publish_as(content: str):
    def publish(workspace: Path, done) -> None:
        with publishing(workspace / "models" / "policy", {"stage": content}) as work:
            (work / "shards").mkdir()
            for name in ("config.json", "shards/model.bin"):
                (work / name).write_text(content)
        done()

    return publish


def nothing(workspace: Path) -> None:
    workspace.mkdir()


def published_before(workspace: Path) -> None:
    publish_as("old")(workspace, lambda: None)


@pytest.mark.parametrize("before", [nothing, published_before], ids=["first", "again"])
def test_kills_while_an_output_is_published(folder, before):
    tally = Tally(f"publish, {before.__name__}")
    for workspace, outcome in every_kill(publish_as("new"), before, folder):
        target = workspace / "models" / "policy"
        appeared = verify(target)["stage"] if target.exists() else None
        if outcome.acknowledged:
            assert appeared == "new"
        if appeared is None and before is published_before:
            # Killed between the two renames: the old output is whole beside its place.
            (aside,) = target.parent.glob(".policy.old-*")
            assert verify(aside)["stage"] == "old"
        publish_as("next")(workspace, lambda: None)
        assert verify(target)["stage"] == "next"
        assert [path.name for path in target.parent.iterdir()] == ["policy"]
        tally.add(outcome, took_effect=appeared == "new")
    print(tally)
    assert tally.total >= 30


# ---- releases


def policy(workspace: Path, name: str) -> Path:
    target = workspace / "made" / name
    with publishing(target, {"stage": name}) as work:
        (work / "config.json").write_text(name)
        (work / "model.bin").write_bytes(name.encode().ljust(ALWAYS_COPIED_BYTES, b"."))
    return target


def promoted_once(workspace: Path) -> None:
    for name in ("second", "third"):
        policy(workspace, name)
    (workspace / "dvc.lock").write_text("schema: '2.0'\n")
    Releases(workspace).promote(policy(workspace, "first"), {"gold": 0.5})


def release(workspace: Path, done) -> None:
    """Promote, roll back, promote, prune; CURRENT says what is promoted after each `done`."""
    releases = Releases(workspace)
    releases.promote(workspace / "made" / "second", {"gold": 0.6}, scores_by_prompt={"p": 0.6})
    done()
    releases.restore("v1", "gold fell")
    done()
    releases.promote(workspace / "made" / "third", {"gold": 0.7})
    done()
    releases.prune(1)
    done()


CURRENT = ["first", "second", "first", "third", "third"]


def test_kills_while_policies_are_released(folder):
    tally = Tally("promote, restore, prune")
    for workspace, outcome in every_kill(release, promoted_once, folder):
        releases = Releases(workspace)
        version = releases.current()
        assert version is not None
        promoted = verify(releases.policy_of(version))["stage"]
        possible = CURRENT[outcome.acknowledged : outcome.acknowledged + 2]
        assert promoted in possible, f"{outcome}: {promoted} is neither of {possible}"
        assert verify(releases.link)["stage"] in CURRENT, "what the link shows is always a whole policy"
        assert releases.restore() == version
        assert verify(releases.link)["stage"] == promoted
        kept = {version.id for version in releases.log().versions if version.kept}
        assert {path.name for path in (releases.folder / "versions").iterdir()} == kept
        assert {path.name for path in workspace.glob("models/*")} == {"promoted"}
        tally.add(outcome, took_effect=promoted != possible[0])
    print(tally)
    assert tally.total >= 200


# ---- whole processes at random moments

WRITER = """
import itertools, sys
from pathlib import Path
from rlhf_pipeline.checkpoints.ledger import Ledger
with Ledger(Path(sys.argv[1]), params_digest="abc", world_size=1, keep_newest=2) as ledger:
    restored = ledger.resume()
    for step in itertools.count(restored.step + 1 if restored else 1):
        (ledger.begin(step) / "model.bin").write_bytes(b"w" * 500_000)
        ledger.commit(step, score=step / 1e6)
        print(step, flush=True)
"""


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_never_goes_back(tmp_path):
    """Twelve processes in a row, each killed at a random moment while it saves as fast as it can."""
    draw = random.Random(0)
    newest = 0
    for _ in range(12):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        first = int(writer.stdout.readline())
        assert first > newest
        time.sleep(draw.uniform(0.0, 0.3))
        writer.kill()
        acknowledged = [first, *map(int, writer.stdout.read().split())]
        writer.wait()
        writer.stdout.close()
        with open_ledger_of_writer(tmp_path) as ledger:
            restored = ledger.resume()
            assert restored is not None
            assert restored.step in (acknowledged[-1], acknowledged[-1] + 1)
            newest = restored.step
    print(f"random kills: 12 kills, 0 lost, reached step {newest}")


def open_ledger_of_writer(run: Path) -> Ledger:
    return Ledger(run, params_digest="abc", world_size=1, keep_newest=2)
