"""make clean-checkpoints over real ledgers: what is pinned stays, a run in use and damage are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.checkpoints.ledger import Ledger
from scripts import clean_checkpoints


def open_run(name: str) -> Ledger:
    run = Path(".scratch/ppo") / name / "ledger"
    return Ledger(run, params_digest=name, world_size=1, keep_newest=4)


def save(ledger: Ledger, step: int, score: float, good: bool = True) -> None:
    (ledger.begin(step) / "weights").write_bytes(bytes(1000))
    ledger.commit(step, score=score, good=good)


def steps(name: str) -> list[str]:
    return sorted(path.name for path in Path(".scratch/ppo", name, "ledger").glob("global_step_*"))


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)


def test_best_last_good_and_newest_stay_and_the_run_goes_on(capsys: Any) -> None:
    with open_run("a") as ledger:
        for step, score, good in (
            (1, 0.5, True),
            (2, 0.9, True),
            (3, 0.6, True),
            (4, 0.7, True),
            (5, 0.1, False),
        ):
            save(ledger, step, score, good)
        ledger.begin(6)  # a save that was killed
    clean_checkpoints.main()
    assert steps("a") == ["global_step_2", "global_step_4", "global_step_5"]
    said = capsys.readouterr().out
    assert "keeps step 2 (best), step 4 (last_good), step 5 (committed)" in said
    assert "1 runs, 0.000 GB freed" in said
    with open_run("a") as ledger:
        assert ledger.restore_best().step == 2
        assert ledger.resume().step == 5  # type: ignore[union-attr]


def test_a_run_in_use_and_a_damaged_ledger_are_left_alone(capsys: Any) -> None:
    with open_run("damaged") as ledger:
        for step in (1, 2, 3):
            save(ledger, step, 1 / step)
    for file in Path(".scratch/ppo/damaged/ledger").glob("ledger*.json"):
        file.write_text("{}")
    with open_run("busy") as ledger:
        for step in (1, 2, 3):
            save(ledger, step, 1 / step)
        clean_checkpoints.main()
    assert steps("busy") == steps("damaged") == [f"global_step_{step}" for step in (1, 2, 3)]
    assert capsys.readouterr().out.count("left as it is") == 2


def test_releases_are_not_looked_at() -> None:
    release = Path(".rlhf/releases/versions/1/policy/model.bin")
    release.parent.mkdir(parents=True)
    release.write_bytes(b"x")
    clean_checkpoints.main()
    assert release.exists()
