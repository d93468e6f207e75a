"""A workspace with a very small base model and data set, as the stages before SFT leave it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import paths
from rlhf_pipeline.data.prepare import prepare
from rlhf_pipeline.models.tiny import write_tiny
from rlhf_pipeline.params import Params, load
from rlhf_pipeline.publish import publishing

PRESETS = Path(__file__).parents[3] / "presets"
SMALL = {
    "hardware.device": "cpu",
    "model.tiny.hidden_size": 32,
    "model.tiny.intermediate_size": 48,
    "model.tiny.n_heads": 1,
    "model.tiny.n_kv_heads": 1,
    "data.synthetic.n_prompts": 200,
    "sft.max_steps": 4,
    "sft.batch_size": 16,
    "sft.micro_batch_size_per_gpu": 16,
    "sft.validate_every_steps": 2,
    "reward_model.max_steps": 4,
    "reward_model.validate_every_steps": 2,
    "reward_model.min_pair_accuracy": 0.0,
    "tracking.backends": ["jsonl"],
}


@pytest.fixture(scope="session")
def small_params() -> Params:
    return load(PRESETS / "tiny-cpu.yaml", SMALL)


@pytest.fixture(scope="session")
def inputs(small_params: Params, tmp_path_factory: Any) -> Path:
    """A folder with models/base and data/validated."""
    root = tmp_path_factory.mktemp("inputs")
    with publishing(root / paths.BASE_MODEL, {}) as folder:
        write_tiny(folder, small_params.model.tiny, small_params.seed)
    with publishing(root / paths.VALIDATED, {}) as folder:
        prepare(small_params.data, small_params.seed, root / "raw", folder)
    return root


@pytest.fixture
def workspace(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace of its own for one test, and the current folder."""
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
