"""The ledger: what counts, what is ignored, what is kept, what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.checkpoints.book import LEDGER
from rlhf_pipeline.checkpoints.ledger import Ledger
from rlhf_pipeline.checkpoints.run_folder import TRL_STEPS
from rlhf_pipeline.checkpoints.view import LedgerView
from rlhf_pipeline.errors import CheckpointError, EnvironmentProblem


def test_a_committed_step_is_resumed_with_its_state(run, reopen, save):
    with reopen() as ledger:
        assert ledger.resume() is None
        save(ledger, 4, 0.5, trainer_state={"kl": 0.02}, scores_by_prompt={"a": 1.0, "b": 0.0})
    with reopen() as ledger:
        restored = ledger.resume()
        assert (restored.step, restored.state, restored.pending_rollbacks) == (4, {"kl": 0.02}, 0)
        assert restored.folder == run / "global_step_4"
        assert ledger.scores_of(4) == {"a": 1.0, "b": 0.0}
        manifest = json.loads((restored.folder / "manifest.json").read_text())
        assert (manifest["world_size"], manifest["params_digest"], manifest["code_commit"]) == (
            2,
            "abc",
            "f00",
        )
        assert set(manifest["files"]) == {"actor/model.bin", "data.pt", "ledger_state.json"}


def test_best_last_good_and_newest_survive_pruning_across_restarts(run, reopen, save):
    for step, score, good in (
        (1, 0.5, True),
        (2, 0.9, True),
        (3, 0.7, True),
        (4, 0.8, True),
        (5, 0.2, False),
    ):
        with reopen() as ledger:
            save(ledger, step, score, good=good)
    with reopen() as ledger:
        assert ledger.best().step == 2
        assert ledger.last_good().step == 4
        assert ledger.states() == {1: "pruned", 2: "best", 3: "pruned", 4: "last_good", 5: "committed"}
    assert sorted(path.name for path in run.glob("global_step_*")) == [f"global_step_{n}" for n in (2, 4, 5)]


def test_of_equal_scores_the_earlier_is_best(reopen, save):
    with reopen(keep_newest=3) as ledger:
        save(ledger, 1, 0.5)
        save(ledger, 2, 0.5)
        assert ledger.best().step == 1


def test_the_old_best_goes_only_after_the_new_one_is_committed(run, reopen, save):
    with reopen() as ledger:
        save(ledger, 1, 0.5)
        folder = ledger.begin(2)
        (folder / "model.bin").write_bytes(b"better")
        assert (run / "global_step_1").is_dir()
        ledger.commit(2, score=0.9)
        assert not (run / "global_step_1").exists()


def test_an_unfinished_save_is_removed_and_named(run, reopen, save):
    with reopen() as ledger:
        save(ledger, 1, 0.5)
        (ledger.begin(2) / "half").write_bytes(b"half a checkpoint")
        assert ledger.states()[2] == "writing"
    (run / "global_step_7").mkdir()
    (run / "global_step_7" / "model.bin").write_bytes(b"renamed, but in no ledger")
    with reopen() as ledger:
        restored = ledger.resume()
        assert restored.step == 1
        assert [line.split(" was ")[0] for line in restored.ignored] == ["global_step_2", "global_step_7"]
    assert not (run / "writing").exists()
    assert not (run / "global_step_7").exists()


@pytest.mark.parametrize("harm", ["flip", "truncate", "delete", "add", "manifest"])
def test_a_damaged_step_is_passed_over_for_the_one_before(run, reopen, harm, save):
    with reopen(keep_newest=2) as ledger:
        save(ledger, 1, 0.5)
        save(ledger, 2, 0.6)
    victim = run / "global_step_2" / "actor" / "model.bin"
    if harm == "flip":
        content = bytearray(victim.read_bytes())
        content[3] ^= 1
        victim.write_bytes(content)
    elif harm == "truncate":
        os.truncate(victim, 5)
    elif harm == "delete":
        victim.unlink()
    elif harm == "add":
        (victim.parent / "extra").write_bytes(b"")
    else:
        (run / "global_step_2" / "manifest.json").write_text("{}")
    with reopen(keep_newest=2) as ledger:
        restored = ledger.resume()
        assert restored.step == 1
        assert len(restored.ignored) == 1
        assert restored.ignored[0].startswith("step 2 is damaged")
        assert ledger.states()[2] == "damaged"
        assert ledger.best().step == 1
        save(ledger, 2, 0.7)
        assert ledger.best().step == 2


def test_when_nothing_verifies_the_run_is_refused_not_restarted(run, reopen, save):
    with reopen() as ledger:
        save(ledger, 1, 0.5)
    (run / "global_step_1" / "data.pt").write_bytes(b"?")
    with (
        reopen() as ledger,
        pytest.raises(CheckpointError, match=r"data.pt does not match.*\n.*train from the start"),
    ):
        ledger.resume()


def test_restore_best_takes_the_next_best_when_the_best_is_damaged(run, reopen, save):
    with reopen(keep_newest=3) as ledger:
        for step, score in ((1, 0.7), (2, 0.9), (3, 0.8)):
            save(ledger, step, score)
        (run / "global_step_2" / "data.pt").unlink()
        assert ledger.restore_best().step == 3
        assert ledger.states()[2] == "damaged"


def test_rollback_gives_up_later_steps_and_survives_a_restart(run, reopen, save):
    with reopen(keep_newest=3) as ledger:
        save(ledger, 2, 0.9, trainer_state={"coef": 0.1})
        save(ledger, 4, 0.8)
        save(ledger, 6, 0.4, good=False)
        assert ledger.mark_rolled_back(6, 2, "score fell") == 1
    assert sorted(path.name for path in run.glob("global_step_*")) == ["global_step_2"]
    with reopen(keep_newest=3) as ledger:
        restored = ledger.resume()
        assert (restored.step, restored.pending_rollbacks, restored.state) == (2, 1, {"coef": 0.1})
        assert ledger.states() == {2: "best", 4: "rolled_back", 6: "rolled_back"}
        save(ledger, 4, 0.95)
        assert ledger.restore(4).pending_rollbacks == 0
        assert ledger.best().step == 4
        assert [event["kind"] for event in ledger.events()].count("rollback") == 1


def test_a_score_can_follow_the_commit(reopen, save):
    with reopen() as ledger:
        save(ledger, 1)
        assert ledger.best() is None
        ledger.record_score(1, 0.5, {"a": 0.5})
    with reopen() as ledger:
        assert ledger.best().score == 0.5
        assert ledger.scores_of(1) == {"a": 0.5}


def test_a_score_that_is_not_finite_is_never_best(reopen, save):
    with reopen(keep_newest=2) as ledger:
        save(ledger, 1, 0.1)
        save(ledger, 2, float("nan"), scores_by_prompt={"a": float("inf")})
        assert ledger.best().step == 1
        assert str(ledger.scores_of(2)["a"]) == "nan"


def test_folders_of_other_trainers_are_adopted(run, reopen):
    with reopen(step_name=TRL_STEPS) as ledger:
        (run / "checkpoint-50").mkdir()
        (run / "checkpoint-50" / "model.safetensors").write_bytes(b"w")
        ledger.adopt(50, score=-0.3)
        (run / "checkpoint-60").mkdir()
        (run / "checkpoint-60" / "model.safetensors").write_bytes(b"half")
    with reopen(step_name=TRL_STEPS) as ledger:
        restored = ledger.resume()
        assert restored.folder == run / "checkpoint-50"
        assert not (run / "checkpoint-60").exists()
        with pytest.raises(CheckpointError, match="missing or empty"):
            ledger.adopt(70)


def test_what_cannot_be_right_is_refused(run, reopen, save):
    with reopen() as ledger:
        ledger.begin(1)
        with pytest.raises(CheckpointError, match="missing or empty"):
            ledger.commit(1)
        save(ledger, 1, 0.5)
        with pytest.raises(CheckpointError, match="step 1 is committed already"):
            ledger.begin(1)
        with pytest.raises(CheckpointError, match=r"step 9 is not committed; committed are \[1\]"):
            ledger.mark_rolled_back(10, 9, "?")
    with pytest.raises(CheckpointError, match=r"by 2 training processes and this run has 1.*n_gpus_per_node"):
        reopen(world_size=1)
    with pytest.raises(CheckpointError, match="belongs to params abc, this run has xyz"):
        reopen(params_digest="xyz")
    with pytest.raises(CheckpointError, match="names its steps"):
        reopen(step_name=TRL_STEPS)


def test_one_damaged_copy_of_the_ledger_is_survived_two_are_refused(run, reopen, save):
    with reopen() as ledger:
        save(ledger, 1, 0.5)
    text = (run / LEDGER).read_text()
    (run / LEDGER).write_text(text.replace("0.5", "0.9"))
    with reopen() as ledger:
        restored = ledger.resume()
        assert "ledger.json is damaged (its checksum does not match)" in restored.ignored[0]
        assert ledger.best().score == 0.5
    (run / LEDGER).write_text(text[:-40])
    (run / "ledger.backup.json").unlink()
    with pytest.raises(CheckpointError, match=r"ledger.json is damaged.*ledger.backup.json is missing"):
        reopen()


def test_a_second_run_is_refused_and_a_dead_one_is_not_in_the_way(run, reopen):
    code = (
        "import sys, time; from pathlib import Path; from rlhf_pipeline.checkpoints.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]), params_digest='abc', world_size=2, keep_newest=1)\n"
        "print('open', flush=True); time.sleep(60)"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(CheckpointError, match=rf"in use by process {other.pid} on "):
            reopen()
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    reopen().close()


def test_a_forked_child_does_not_keep_the_folder(run, reopen):
    ledger = reopen()
    read_end, write_end = os.pipe()
    alive_end, tell_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell_end, b"x")
        os.read(read_end, 1)
        os._exit(0)
    try:
        os.read(alive_end, 1)
        ledger.close()
        reopen().close()
    finally:
        os.write(write_end, b"x")
        os.waitpid(child, 0)
        for handle in (read_end, write_end, alive_end, tell_end):
            os.close(handle)


def test_the_disk_budget_is_asked_before_a_save(run, reopen):
    with (
        reopen(min_free_bytes=2**60) as ledger,
        pytest.raises(
            EnvironmentProblem, match=r"saving step 1 needs 0.00 GiB .* lower ppo.checkpoints.keep_newest"
        ),
    ):
        ledger.begin(1)
    with (
        reopen(first_save_bytes=2**60) as ledger,
        pytest.raises(EnvironmentProblem, match="must leave"),
    ):
        ledger.begin(1)


def test_the_view_reads_without_the_lock(run, reopen, save):
    assert LedgerView.read(run) is None
    with reopen() as ledger:
        save(ledger, 1, 0.5)
        ledger.finish("all steps done")
        view = LedgerView.read(run)
        assert view is not None
        assert (view.best().step, view.finished) == (1, "all steps done")
    assert isinstance(ledger, LedgerView)


def test_opening_needs_no_torch(tmp_path: Path):
    code = "import sys, rlhf_pipeline.checkpoints.ledger; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_ledger_is_a_context_manager_that_lets_go_on_error(run, reopen):
    with pytest.raises(RuntimeError, match="boom"), reopen():
        raise RuntimeError("boom")
    with reopen() as ledger:
        assert isinstance(ledger, Ledger)
