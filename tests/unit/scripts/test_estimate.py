"""`make estimate` on another machine's GPUs: figures from the models' sizes, a refusal where nothing fits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from rlhf_pipeline import errors, paths
from rlhf_pipeline.publish import publishing
from scripts import estimate

PRESET = Path(__file__).parents[3] / "presets" / "smollm2-135m.yaml"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Models of a million parameters and 300 prompts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / paths.PARAMS).write_text(PRESET.read_text())
    for folder in (paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE):
        with publishing(folder, {}) as out:
            save_file({"weight": torch.zeros(1000, 1000)}, out / "model.safetensors")
    with publishing(paths.VALIDATED, {}) as out:
        (out / "prompts").mkdir()
        pq.write_table(pa.table({"prompt_id": ["a"] * 300}), out / "prompts/train.parquet")
    return tmp_path


def estimated(monkeypatch: pytest.MonkeyPatch, capsys: Any, *words: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["estimate", *words])
    code = errors.main(estimate.main)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_figures(workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    code, said, _ = estimated(monkeypatch, capsys, "--gpu-gib", "40")
    assert code == 0
    assert "policy 1.0 M, critic 1.0 M, reward_model 1.0 M" in said
    # 300 // 128 = 2 steps an epoch, 20 epochs, at most 36 steps; 128 * (1024 + 256) tokens.
    assert "36, each of 128 responses and at most 163,840 tokens; a validation every 12" in said
    # Actor 4 + 4 + 8 bytes a parameter, critic 4 + 8: 28 MB; five of them with keep_newest 2.
    assert "0.0 GiB a checkpoint, 0.1 GiB at most" in said
    assert "each GPU of 40.0 GiB: training keeps 0.0 GiB" in said
    assert not list(workspace.glob(".scratch/*"))


def test_what_cannot_fit_is_refused_after_the_figures(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    code, said, complaint = estimated(monkeypatch, capsys, "--gpu-gib", "0.01")
    assert code == errors.USER_ERROR_EXIT_CODE
    assert "disk" in said
    assert "weights, gradients and Adam's moments take 0.0 GiB of each GPU's 0.0 GiB" in complaint
    assert "Traceback" not in complaint


def test_a_stage_that_has_not_run_is_named(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (workspace / paths.JUDGE).rename(workspace / "elsewhere")
    code, _, complaint = estimated(monkeypatch, capsys)
    assert code == errors.USER_ERROR_EXIT_CODE
    assert "models/judge does not exist; run `dvc repro reward_model judge`" in complaint
