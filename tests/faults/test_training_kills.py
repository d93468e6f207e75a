"""SFT and reward model killed in the middle: the second start ends with the weights of an unbroken run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import paths
from rlhf_pipeline.checkpoints.book import read_book
from rlhf_pipeline.data.prepare import prepare
from rlhf_pipeline.models.tiny import write_tiny
from rlhf_pipeline.params import load
from rlhf_pipeline.params.load import read_yaml
from rlhf_pipeline.params_edit import place_of
from rlhf_pipeline.publish import publishing, sha256_of

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "hardware.device": "cpu",
    "data.synthetic.n_prompts": 200,
    "sft.max_steps": 6,
    "sft.validate_every_steps": 2,
    "sft.batch_size": 16,
    "sft.micro_batch_size_per_gpu": 16,
    "reward_model.max_steps": 6,
    "reward_model.validate_every_steps": 2,
    "reward_model.min_pair_accuracy": 0.0,
    "tracking.backends": [],
}
DEADLINE_S = 240.0

pytestmark = pytest.mark.long


def make_workspace(folder: Path) -> Path:
    """params.yaml, models/base, data/validated, and the base model once more as models/sft."""
    values = read_yaml(ROOT / "presets/tiny-cpu.yaml")
    for dotted, value in SMALL.items():
        section, key = place_of(values, dotted)
        section[key] = value
    folder.mkdir()
    (folder / paths.PARAMS).write_text(json.dumps(values))
    params = load(folder / paths.PARAMS)
    with publishing(folder / paths.BASE_MODEL, {}) as out:
        write_tiny(out, params.model.tiny, params.seed)
    with publishing(folder / paths.VALIDATED, {}) as out:
        prepare(params.data, params.seed, folder / "raw", out)
    shutil.copytree(folder / paths.BASE_MODEL, folder / paths.SFT_MODEL)
    return folder


def start(stage: str, folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", f"stages.{stage}"]
    return subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def committed(stage: str, folder: Path) -> list[int]:
    ledgers = list((folder / paths.SCRATCH / stage).glob("*/ledger"))
    book = read_book(ledgers[0])[0] if ledgers else None
    return [] if book is None else [entry.step for entry in book.live()]


@pytest.mark.parametrize(
    ("stage", "output"), [("sft", paths.SFT_MODEL), ("reward_model", paths.REWARD_MODEL)]
)
def test_a_killed_stage_ends_as_an_unbroken_one(stage: str, output: Path, tmp_path: Path) -> None:
    unbroken, killed = (make_workspace(tmp_path / name) for name in ("unbroken", "killed"))
    assert start(stage, unbroken).wait() == 0
    victim = start(stage, killed)
    wait_for(lambda: bool(committed(stage, killed)) or victim.poll() is not None)
    assert victim.poll() is None, "it ended before it could be killed"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    reached = committed(stage, killed)
    assert reached
    assert max(reached) < 6
    assert start(stage, killed).wait() == 0
    weights = [folder / output / "model.safetensors" for folder in (unbroken, killed)]
    assert sha256_of(weights[0]) == sha256_of(weights[1])
    curves = [(folder / paths.curve(stage)).read_text() for folder in (unbroken, killed)]
    assert [line.split(",")[0] for line in curves[0].splitlines()] == [
        line.split(",")[0] for line in curves[1].splitlines()
    ]
