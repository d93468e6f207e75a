"""The environment of a verl job's processes."""

import pytest

from rlhf_pipeline.backend.env import MAX_TMP_DIR_CHARS, worker_env
from rlhf_pipeline.errors import EnvironmentProblem


def test_the_cpu_job_is_told_so_and_shares_the_cores() -> None:
    env = worker_env("cpu", "/tmp/run-a", threads=2, kv_cache_gib=3)
    assert env["VERL_PLATFORM"] == "cpu"
    assert env["OMP_NUM_THREADS"] == "2"
    assert env["TORCH_COMPILE_DISABLE"] == "1"
    assert env["VLLM_CPU_KVCACHE_SPACE"] == "3"


def test_the_gpu_job_gets_nothing_meant_for_a_cpu() -> None:
    env = worker_env("cuda", "/tmp/run-a")
    assert env["VERL_PLATFORM"] == ""
    assert not [name for name in env if name.startswith(("OMP_", "VLLM_CPU_"))]


def test_each_run_has_sockets_of_its_own() -> None:
    first, second = worker_env("cpu", "/tmp/run-a"), worker_env("cpu", "/tmp/run-b")
    assert {name for name in first if first[name] != second[name]} == {"TMPDIR", "RAY_TMPDIR"}


def test_many_machines_are_not_tied_to_the_loopback_interface() -> None:
    alone = worker_env("cpu", "/tmp/run-a")
    many = worker_env("cpu", "/tmp/run-a", single_machine=False)
    assert alone["GLOO_SOCKET_IFNAME"] == "lo"
    assert set(alone) - set(many) == {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER",
        "GLOO_SOCKET_IFNAME",
        "VLLM_HOST_IP",
    }


@pytest.mark.parametrize("tmp_dir", ["relative/folder", "/tmp/" + "x" * (MAX_TMP_DIR_CHARS - 4)])
def test_a_folder_in_which_a_socket_cannot_lie_is_refused(tmp_dir: str) -> None:
    with pytest.raises(EnvironmentProblem, match="temporary folder"):
        worker_env("cpu", tmp_dir)


def test_the_longest_folder_that_is_accepted_holds_rays_longest_socket() -> None:
    tmp_dir = "/" + "x" * (MAX_TMP_DIR_CHARS - 1)
    worker_env("cpu", tmp_dir)
    socket = tmp_dir + "/ray/session_2026-12-31_23-59-59_999999_4194304/sockets/plasma_store"
    assert len(socket) == 107  # Linux: 108 bytes with the closing zero
