"""What verl needs besides a platform to train on a CPU, one small function each.

Installed by the verl plugin when VERL_PLATFORM=cpu, and only then. Not here: the platform itself
(cpu_platform.py), the name of vLLM's CPU build (vllm_distribution.py), vLLM's own processes
(vllm_plugin.py).
"""

from __future__ import annotations

import functools
import os
from typing import Any


def use_fsdp_engines() -> None:
    """Let verl look up its training engines as it does for CUDA.

    Its FSDP engines ask the platform for the device and hold no CUDA code of their own, but are
    registered for "cuda" and "npu" only. VERL_ENGINE_DEVICE is verl's own switch for the look-up.
    """
    os.environ.setdefault("VERL_ENGINE_DEVICE", "cuda")


def accept_doubled_gloo_backend() -> None:
    """Let torch take the backend string "cpu:gloo,<device>:<backend>" that verl builds.

    On a CPU it names the CPU twice, "cpu:gloo,cpu:gloo", which torch refuses as a duplicate; plain
    "gloo" means the same. Every other string passes through untouched.
    """
    import torch.distributed

    original = torch.distributed.init_process_group

    @functools.wraps(original)
    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        original("gloo" if backend == "cpu:gloo,cpu:gloo" else backend, *args, **kwargs)

    torch.distributed.init_process_group = init_process_group


def offload_without_pinning(fsdp_engine: Any) -> None:
    """Make `fsdp_engine`, verl's FSDP2 engine module, offload to plain memory.

    It always offloads the reference policy with CPUOffloadPolicy(pin_memory=True); pinning needs a
    CUDA driver, and what already lies in the CPU's memory gains nothing from it.
    """
    original = fsdp_engine.CPUOffloadPolicy

    @functools.wraps(original, updated=())
    def unpinned(pin_memory: bool = True) -> Any:
        return original(pin_memory=False)

    fsdp_engine.CPUOffloadPolicy = unpinned
