"""A second run of the same job is refused at once, with the first one's process named, and writes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import paths
from rlhf_pipeline.checkpoints.lock import FolderLock
from rlhf_pipeline.errors import CheckpointError
from rlhf_pipeline.params import load
from rlhf_pipeline.ppo import launch
from rlhf_pipeline.ppo.job import Job
from rlhf_pipeline.train.fine_tune import FineTuning, fine_tune

ROOT = Path(__file__).parents[2]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_second_ppo_run_is_refused_before_it_starts_anything(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    params = load(ROOT / "params.yaml", {"ppo.checkpoints.min_free_gib": 0.0})
    scratch = tmp_path / ".scratch/ppo/abc"
    job = Job(
        params=params.model_dump(mode="json"), config_file="", ledger=str(scratch / "ledger"),
        params_digest="d", device="cpu", total_steps=4, validate_every_steps=2, validation_score="gold",
        judge=None, checkpoint_bytes=0,
    )  # fmt: skip
    with FolderLock(scratch):
        before = files(tmp_path)
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
            launch.run(launch.Plan(job, scratch, "cpu", {}, ""), lambda *_: None, lambda _: None)
        assert files(tmp_path) == before


@pytest.mark.slow
def test_a_second_sft_run_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    from rlhf_pipeline.data.prepare import prepare
    from rlhf_pipeline.models.tiny import write_tiny

    monkeypatch.chdir(tmp_path)
    params = load(ROOT / "params.yaml", {"data.synthetic.n_prompts": 300, "tracking.backends": []})
    for folder in (paths.BASE_MODEL, paths.VALIDATED):
        folder.mkdir(parents=True)
    write_tiny(paths.BASE_MODEL, params.model.tiny, 1)
    prepare(params.data, params.seed, tmp_path / "raw", paths.VALIDATED)
    run = FineTuning(
        "sft", "sft", params.sft, paths.BASE_MODEL,
        tmp_path / paths.table(paths.VALIDATED, "sft", "train"),
        tmp_path / paths.table(paths.VALIDATED, "sft", "validation"),
        tmp_path / ".scratch/sft/abc",
    )  # fmt: skip
    with FolderLock(run.scratch), pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
        fine_tune(params, "d", run)
    assert not (run.scratch / "ledger").exists()
    assert not Path(paths.LOGS / "sft.log").exists()
