"""Starts a warm server beside a job and yields the command that takes the interpreter's place.

The server imports in the background: a caller that has something else to do first loses no time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from .. import process
from . import python as shadow

SOCKET_VARIABLE = "RLHF_WARM_SOCKET"
PYTHON_VARIABLE = "RLHF_WARM_PYTHON"
REAL_PYTHON_VARIABLE = "RLHF_REAL_PYTHON"
START_TIMEOUT_S = 180.0
# What verl's driver and workers, Ray's agents and vLLM's server, engine and CPU worker import.
PPO_MODULES = (
    "ray",
    "torch",
    "verl",
    "verl.trainer.ppo.v1",
    "verl.workers.engine_workers",
    "verl.workers.engine.fsdp.transformer_impl",
    "verl.workers.rollout.vllm_rollout.vllm_async_server",
    "verl.experimental.reward_loop",
    "vllm.v1.engine.core",
    "vllm.v1.worker.cpu_worker",
    "transformers.models.qwen2.modeling_qwen2",
    "vllm.model_executor.models.qwen2",
)


@contextmanager
def warm_python(
    folder: Path, modules: Sequence[str], env: Mapping[str, str], log: Path
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (interpreter, variables): run the interpreter with the variables added to a child's environment.

    Args:
        folder: a private folder whose path is short enough for a Unix socket.
        env: the job's variables; the imports read some of them (platform, thread counts).

    Raises:
        StageError: when the imports fail; the log has the reason.
    """
    socket, interpreter = folder / "warm.sock", folder / "warm-python"
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{shadow.__file__}" "$@"\n')
    interpreter.chmod(0o700)
    variables = {
        SOCKET_VARIABLE: str(socket),
        PYTHON_VARIABLE: str(interpreter),
        REAL_PYTHON_VARIABLE: sys.executable,
    }
    command = [sys.executable, "-m", "rlhf_pipeline.warm.server", str(socket), *modules]
    with process.running(command, log=log, env={**env, **variables}, name="warm") as server:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not socket.exists():
            if not server.alive or time.monotonic() > deadline:
                server.check()
            time.sleep(0.05)
        yield str(interpreter), variables
