"""verl's CPU shims, each on the real function that it changes."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy

from rlhf_pipeline.backend import cpu_shims

DOUBLED = "cpu:gloo,cpu:gloo"


@pytest.fixture
def single_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Arguments for a process group of one, which is left again afterwards."""
    monkeypatch.setattr(dist, "init_process_group", dist.init_process_group)
    yield {"init_method": f"file://{tmp_path / 'store'}", "rank": 0, "world_size": 1}
    if dist.is_initialized():
        dist.destroy_process_group()


def test_torch_takes_verls_backend_string(single_process: dict[str, Any]) -> None:
    cpu_shims.accept_doubled_gloo_backend()
    dist.init_process_group(backend=DOUBLED, **single_process)
    total = torch.tensor([2.0])
    dist.all_reduce(total)
    assert total.item() == 2.0
    assert dist.get_backend() == "gloo"


def test_other_backend_strings_reach_torch_untouched(single_process: dict[str, Any]) -> None:
    cpu_shims.accept_doubled_gloo_backend()
    with pytest.raises(ValueError, match="cuda:gloo,cuda:gloo"):
        dist.init_process_group("cuda:gloo,cuda:gloo", **single_process)


def test_offloading_never_pins_memory() -> None:
    engine = SimpleNamespace(CPUOffloadPolicy=CPUOffloadPolicy)
    cpu_shims.offload_without_pinning(engine)
    policy = engine.CPUOffloadPolicy(pin_memory=True)
    assert isinstance(policy, CPUOffloadPolicy)
    assert policy.pin_memory is False


def test_the_engine_lookup_can_still_be_chosen_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_ENGINE_DEVICE", "npu")
    cpu_shims.use_fsdp_engines()
    assert os.environ["VERL_ENGINE_DEVICE"] == "npu"
