"""The environment variables of every process in a verl job: driver, Ray, training and vLLM workers.

Pure and without imports beyond the standard library: a launcher merges the result over its own
environment and passes it to the child. Not here: variables of the logging services (wandb's key,
its mode) and of params that travel in verl's configuration.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from rlhf_pipeline.errors import EnvironmentProblem

# Linux allows 107 bytes for the path of a Unix socket. Ray's longest is
# <tmp_dir>/ray/session_<date>_<time>_<microseconds>_<pid>/sockets/plasma_store.
MAX_TMP_DIR_CHARS = 107 - len("/ray/session_2026-01-31_23-59-59_999999_1234567/sockets/plasma_store")

_EVERYWHERE = {
    # All models and data are local by now; a missing file must be an error, not a download.
    "HF_HUB_OFFLINE": "1",
    # Nobody phones home.
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    # The log file shows every worker's lines, as they are written, with full tracebacks.
    "RAY_DEDUP_LOGS": "0",
    "PYTHONUNBUFFERED": "1",
    "HYDRA_FULL_ERROR": "1",
    # Empty is off: without byte code every one of ten processes compiles torch's and vLLM's modules.
    "PYTHONDONTWRITEBYTECODE": "",
    # verl loads this plugin and no other, whatever else is installed or exported.
    "VERL_USE_EXTERNAL_PLUGINS": "rlhf_pipeline",
    "VERL_USE_EXTERNAL_MODULES": "",
}

_LOOPBACK = {
    # Ray and, through it, verl's servers take the address of an outside interface unless Ray thinks
    # that it cannot form a cluster; this switch (named for two other systems) tells it so.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # torch's gloo and vLLM look for an interface by themselves, and fail in a container without one.
    "GLOO_SOCKET_IFNAME": "lo",
    "VLLM_HOST_IP": "127.0.0.1",
}

_CUDA = {
    # Empty: verl finds the vendor itself.
    "VERL_PLATFORM": "",
    # flashinfer's sampler compiles at first use, which needs nvcc; vLLM's own is as good here.
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    # Ray hides every GPU from an actor that asks for none; verl's engine servers place themselves.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def worker_env(
    device: Literal["cpu", "cuda"],
    tmp_dir: Path | str,
    *,
    single_machine: bool = True,
    attention: str = "sdpa",
    threads: int = 1,
    kv_cache_gib: int = 1,
) -> dict[str, str]:
    """All variables that a verl job's processes need on `device`.

    `tmp_dir` is an absolute folder for this run alone (at most MAX_TMP_DIR_CHARS characters): Ray's
    session, vLLM's and the weight sync's sockets go there, so that two runs on one machine do not
    meet. With `single_machine` everything listens on the loopback interface only. `attention` is
    the name given to transformers; "torch_varlen" must be announced to the plugin. `threads` is
    OpenMP's count for each process, `kv_cache_gib` the size in GiB of each vLLM engine's cache;
    both concern the CPU only.

    Raises `EnvironmentProblem` when `tmp_dir` is relative or too long for a socket's path.
    """
    tmp = str(tmp_dir)
    if not tmp.startswith("/") or len(tmp.encode()) > MAX_TMP_DIR_CHARS:
        raise EnvironmentProblem(
            f"the run's temporary folder {tmp!r} must be an absolute path of at most "
            f"{MAX_TMP_DIR_CHARS} characters, because Unix sockets lie in it"
        )
    variables = {**_EVERYWHERE, "TMPDIR": tmp, "RAY_TMPDIR": tmp, "RLHF_ATTENTION": attention}
    if single_machine:
        variables |= _LOOPBACK
    return variables | (_CUDA if device == "cuda" else _cpu(threads, kv_cache_gib))


def _cpu(threads: int, kv_cache_gib: int) -> dict[str, str]:
    return {
        "VERL_PLATFORM": "cpu",
        # Several processes share the cores: a pool as large as the machine in each, with threads
        # that spin while they wait, slows all of them down.
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        # TransferQueue wants eight and says at every exchange that there are fewer cores.
        "TQ_NUM_THREADS": "1",
        # vLLM would pin each engine's threads to the same cores, counted as if it were alone.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # vLLM's sampler would compile two functions in C++ at every start: 15 s, and a compiler needed.
        "TORCH_COMPILE_DISABLE": "1",
        # vLLM takes half the machine's memory for its cache unless told otherwise.
        "VLLM_CPU_KVCACHE_SPACE": str(kv_cache_gib),
    }
