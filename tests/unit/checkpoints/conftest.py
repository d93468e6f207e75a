"""A ledger in a temporary run folder, and a way to save small fake training state into it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.checkpoints.ledger import Ledger

OPTIONS: dict[str, Any] = {"params_digest": "abc", "world_size": 2, "keep_newest": 1, "code_commit": "f00"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "ppo" / "abc"


@pytest.fixture
def reopen(run: Path) -> Callable[..., Ledger]:
    """Opens the run's ledger as a new process would; the caller closes it."""
    return lambda **changes: Ledger(run, **{**OPTIONS, **changes})


@pytest.fixture
def save() -> Callable[..., None]:
    """Saves two small files for a step and commits it."""

    def save_step(ledger: Ledger, step: int, score: float | None = None, **facts: Any) -> None:
        folder = ledger.begin(step)
        (folder / "actor").mkdir()
        (folder / "actor" / "model.bin").write_bytes(f"weights of step {step}".encode())
        (folder / "data.pt").write_bytes(bytes(step % 256 for _ in range(64)))
        ledger.commit(step, score=score, **facts)

    return save_step
