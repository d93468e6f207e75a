"""The data loader's position: a real loader goes on from it exactly, and nothing in it is a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import RandomSampler

from rlhf_pipeline.ppo.position import load_position, save_position


def loader() -> Any:
    """As verl makes it: a sampler with a generator of its own, no workers."""
    sampler = RandomSampler(range(40), generator=torch.Generator().manual_seed(7))
    return StatefulDataLoader(range(40), batch_size=4, sampler=sampler, num_workers=0)


@pytest.mark.parametrize("batches", [0, 3, 9])
def test_a_loader_goes_on_where_it_was(tmp_path: Path, batches: int) -> None:
    whole, path = loader(), tmp_path / "data.json"
    course = iter(whole)
    for _ in range(batches):
        next(course)
    save_position(path, whole.state_dict())
    rest = [batch.tolist() for batch in course]
    again = loader()
    again.load_state_dict(load_position(path))
    assert [batch.tolist() for batch in again] == rest
    assert len(rest) == 10 - batches


@pytest.mark.parametrize("state", [{"a": object()}, {"a": {1: "x"}}])
def test_what_json_cannot_hold_is_refused(tmp_path: Path, state: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="the data loader's state"):
        save_position(tmp_path / "data.json", state)


def test_tensors_keep_type_and_shape(tmp_path: Path) -> None:
    state = {"t": torch.tensor([[1.5, -2.0]], dtype=torch.float64), "n": None, "l": [1, {"b": True}]}
    save_position(tmp_path / "p", state)
    found = load_position(tmp_path / "p")
    assert found["t"].dtype == torch.float64
    assert torch.equal(found["t"], state["t"])
    assert (found["n"], found["l"]) == (None, [1, {"b": True}])
