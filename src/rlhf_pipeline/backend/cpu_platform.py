"""verl's device platform for machines without an accelerator.

verl asks its platform for everything it would ask of `torch.cuda`: memory figures, random state,
seeds, the collective backend. It ships platforms for CUDA, ROCm and Ascend only. Imported by the
verl plugin when VERL_PLATFORM=cpu; importing verl from here is therefore cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase


class CpuDeviceModule(ModuleType):
    """`torch.cpu`, completed by the calls that verl makes on `torch.cuda`.

    A process on a CPU has no memory pool of its own, so everything "allocated" is 0 bytes, and
    the free and total bytes are the machine's.
    """

    def __init__(self) -> None:
        super().__init__("torch.cpu", "torch.cpu with torch.cuda's memory and random-state calls")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def get_device_name(device: object = None) -> str:
        # "CPU" has a row in verl's table of peak FLOPs, which is matched by substring.
        return "CPU"

    @staticmethod
    def get_device_properties(device: object = None) -> SimpleNamespace:
        return SimpleNamespace(name="CPU", total_memory=psutil.virtual_memory().total)

    @staticmethod
    def mem_get_info(device: object = None) -> tuple[int, int]:
        memory = psutil.virtual_memory()
        return memory.available, memory.total

    @staticmethod
    def memory_allocated(device: object = None) -> int:
        return 0

    memory_reserved = max_memory_allocated = max_memory_reserved = memory_allocated

    @staticmethod
    def reset_peak_memory_stats(device: object = None) -> None:
        """Nothing is counted, so nothing is reset."""

    @staticmethod
    def set_per_process_memory_fraction(fraction: float, device: object = None) -> None:
        """There is no pool to limit."""

    @staticmethod
    def empty_cache() -> None:
        """There is no cache to empty."""

    @staticmethod
    def ipc_collect() -> None:
        """There are no device handles to collect."""

    @staticmethod
    def get_rng_state(device: object = None) -> torch.Tensor:
        return torch.get_rng_state()

    @staticmethod
    def set_rng_state(new_state: torch.Tensor, device: object = None) -> None:
        torch.set_rng_state(new_state)

    @staticmethod
    def manual_seed(seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


class CpuPlatform(PlatformBase):
    """Answers verl's questions about its accelerator for a plain CPU."""

    _device_module = CpuDeviceModule()

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "cpu"

    @property
    def device_module(self) -> ModuleType:
        return self._device_module

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """False, so that verl never picks the CPU by itself: it is asked for with VERL_PLATFORM=cpu."""
        return False

    def current_device(self) -> str:
        # verl calls tensor.to(current_device()), and torch reads a bare index 0 as cuda:0.
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one device."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Work on a CPU is done when the call returns."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The settings concern the CUDA allocator."""

    def empty_cache(self) -> None:
        """There is no cache to empty."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        # verl writes device indices into this variable; nobody may read it, CUDA least of all.
        return "RLHF_CPU_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """There is no device profiler."""

    def profiler_stop(self) -> None:
        """There is no device profiler."""

    def ray_resource_name(self) -> str:
        # verl counts Ray's "GPU" or "NPU" before it starts and knows no third name: the launcher
        # declares one "GPU" to Ray for each training process (ray_kwargs.ray_init.num_gpus).
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        """False: verl then hands weights to vLLM through shared memory instead of CUDA handles."""
        return False

    def cudart(self) -> None:
        return None
