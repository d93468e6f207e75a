"""Runs a training module on one process or several: plain Python for one, torchrun for more.

One process needs no launcher, whose own start costs a torch import.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .. import paths, process
from ..backend.env import worker_env
from ..params import Params


def run_module(
    module: str,
    arguments: list[str],
    params: Params,
    device: str,
    name: str,
    on_line: Callable[[str], None] | None,
) -> None:
    """Run `module` with `hardware.n_gpus_per_node` processes on this machine; output goes to logs/<name>.log.

    Raises:
        StageError: when a process fails.
    """
    n = params.hardware.n_gpus_per_node
    folder = Path(tempfile.mkdtemp(prefix="rlhf-", dir="/tmp"))
    try:
        env = worker_env(
            "cuda" if device == "cuda" else "cpu",
            folder,
            attention=params.hardware.attention,
            threads=1 if n > 1 else usable_cores(),
        )
        if n == 1:
            command = [sys.executable, "-m", module, *arguments]
            env |= {
                "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
            }  # fmt: skip
        else:
            # torchrun's own store listens on every interface, so it meets its workers in a file and leaves
            # the server to rank 0, where backend/loopback.py binds it.
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
            command = [
                sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={n}",
                "--rdzv-backend=c10d", "--rdzv-conf=store_type=file", f"--rdzv-endpoint={folder}/rendezvous",
                f"--rdzv-id={secrets.token_hex(4)}", "--local-addr=127.0.0.1", "-m", module, *arguments,
            ]  # fmt: skip
        process.run(command, log=paths.log(name), env=env, on_line=on_line, name=name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A TCP port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def usable_cores(quota_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Cores this process may use: hyper-threads counted once, within its affinity and container's quota."""
    import psutil

    allowed = len(os.sched_getaffinity(0))
    limits = [allowed, psutil.cpu_count(logical=False) or allowed]
    quota, _, period = quota_file.read_text().partition(" ") if quota_file.exists() else ("max", "", "")
    if quota != "max":
        limits.append(round(int(quota) / int(period)))
    return max(1, min(limits))
