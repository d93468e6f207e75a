"""verl's questions about its accelerator, answered for a CPU."""

import pytest
import torch

from rlhf_pipeline.backend.cpu_platform import CpuPlatform


@pytest.fixture(scope="module")
def platform() -> CpuPlatform:
    return CpuPlatform()  # fails if verl's base class asks for a method that is missing


def test_tensors_move_to_the_current_device(platform: CpuPlatform) -> None:
    assert torch.ones(1).to(platform.current_device()).device.type == "cpu"


def test_the_device_module_reports_the_machines_memory(platform: CpuPlatform) -> None:
    free, total = platform.device_module.mem_get_info()
    assert 0 < free <= total
    assert platform.device_module.memory_allocated() == platform.device_module.max_memory_reserved() == 0


def test_the_device_module_is_torch_cpu_for_the_rest(platform: CpuPlatform) -> None:
    assert platform.device_module.current_stream is torch.cpu.current_stream
    with pytest.raises(AttributeError):
        _ = platform.device_module.no_such_function


def test_the_random_state_round_trips(platform: CpuPlatform) -> None:
    platform.manual_seed_all(3)
    state = platform.device_module.get_rng_state()
    first = torch.rand(4)
    platform.device_module.set_rng_state(state)
    assert torch.equal(torch.rand(4), first)


def test_the_cpu_is_never_picked_unasked(platform: CpuPlatform) -> None:
    assert platform.is_available()
    assert not platform.is_platform_available(use_smi_check=True)


def test_ray_counts_it_as_gpus_and_weights_go_through_shared_memory(platform: CpuPlatform) -> None:
    assert platform.ray_resource_options(2) == {"num_gpus": 2}
    assert not platform.is_ipc_supported()
