"""The PPO stage on two training processes, on one Ray node and on two: `pytest -m long tests/end_to_end`.

Outside CI: each run takes minutes on two cores. Data parallel over gloo, two vLLM replicas.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(2400)]


FOR_TWO = {
    "ppo.total_steps": 2,
    "ppo.reward.serving": "in_process",
    "ppo.micro_batch_size_per_gpu": 8,
    "reward_model.micro_batch_size_per_gpu": 8,
    "sft.micro_batch_size_per_gpu": 16,
}


def copy_of(run: Any, folder: Path) -> Path:
    left_out = shutil.ignore_patterns(".git", ".dvc", ".scratch", "policy", "logs", ".rlhf")
    shutil.copytree(run.folder, folder, symlinks=True, ignore=left_out)
    return folder


def ppo(folder: Path, run: Any, changes: dict[str, Any], env: dict[str, str]) -> dict[str, Any]:
    type(run)(folder, "").change_params({**FOR_TWO, **changes})
    done = subprocess.run(
        [sys.executable, "-m", "stages.ppo"],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((folder / "reports/metrics/ppo.json").read_text())
    return found


def test_two_workers_on_one_node(run: Any, tmp_path: Path) -> None:
    folder = copy_of(run, tmp_path / "copy")
    found = ppo(folder, run, {"hardware.n_gpus_per_node": 2}, {})
    assert found["steps"] == 2
    step = f"global_step_{found['best_step']}"
    sharded = list(folder.glob(f".scratch/ppo/*/ledger/{step}/actor/model_world_size_2_rank_*.pt"))
    assert len(sharded) == 2


def test_two_ray_nodes_on_one_host(run: Any, tmp_path: Path) -> None:
    folder = copy_of(run, tmp_path / "copy")
    command = [sys.executable, "-m", "scripts.two_nodes", "--", sys.executable, "-m", "stages.ppo"]
    type(run)(folder, "").change_params(
        {**FOR_TWO, "hardware.nnodes": 2, "hardware.ray_address": "127.0.0.1:6399"}
    )
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found = json.loads((folder / "reports/metrics/ppo.json").read_text())
    assert found["steps"] == 2
