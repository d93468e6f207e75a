"""One real, reduced run of the whole pipeline, shared by every test of this folder.

A clone of the repository in an empty folder; `python -m flows.train` runs the nine stages with the
real stack (verl, Ray, vLLM, TRL, Great Expectations, DVC, Prefect) on the CPU.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlhf_pipeline.params_edit import change_params

ROOT = Path(__file__).parents[2]
REDUCED: dict[str, Any] = {
    "data.synthetic.n_prompts": 900,
    "sft.max_steps": 40,
    "sft.validate_every_steps": 20,
    "reward_model.max_steps": 40,
    "reward_model.validate_every_steps": 20,
    "reward_model.min_pair_accuracy": 0.5,
    "ppo.total_steps": 4,
    "ppo.train_batch_size": 16,
    "ppo.mini_batch_size": 16,
    "ppo.micro_batch_size_per_gpu": 16,
    "ppo.validation.every": 2,
    "ppo.validation.n_prompts": 32,
    "evaluate.n_prompts": 64,
}


SECRETS = {
    # wandb wants 40 characters.
    "WANDB_API_KEY": "c0ffee" + "5ec2e7" * 5 + "aaaa",
    # In pieces: the clone that is searched for them holds this file too.
    "HF_TOKEN": "".join(("hf_", "5ec2e7", "HubToken")),
    "AWS_SECRET_ACCESS_KEY": "".join(("5ec2e7", "Cloud", "Key")),
}
"""Set while everything runs; no file may hold them afterwards."""
OTHER_TESTS = ("PREFECT_API_URL", "WANDB_SERVICE", "RLHF_WORKSPACE")
LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
SAMPLING_S = 1.0


@dataclass(frozen=True)
class Run:
    """The workspace after the run, what the command printed, and where its processes listened."""

    folder: Path
    output: str
    listeners: frozenset[tuple[str, str]] = frozenset()
    """Process title and address of every listening TCP socket seen."""

    def change_params(self, changes: dict[str, Any]) -> None:
        """Edit the workspace's params.yaml."""
        change_params(self.folder / "params.yaml", changes, self.folder / "params.yaml")

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a module of the pipeline's interpreter in the workspace."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=check,
        )


def environment() -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    # What other tests of this process have started is not the user's.
    inherited = {name: value for name, value in os.environ.items() if name not in OTHER_TESTS}
    return {
        **inherited,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "DVC_NO_ANALYTICS": "1",
        # Another Ray's address in the user's shell is not ours to join.
        "RAY_ADDRESS": "127.0.0.1:1",
        **SECRETS,
    }


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("end_to_end") / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    change_params(folder / "params.yaml", REDUCED, folder / "params.yaml")
    listeners: set[tuple[str, str]] = set()
    with (folder.parent / "output").open("w+", encoding="utf-8") as output:
        command = [sys.executable, "-m", "flows.train"]
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=output, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + 1200
        while process.poll() is None:
            assert time.monotonic() < deadline
            listeners |= listening(process.pid)
            time.sleep(SAMPLING_S)
        output.seek(0)
        said = output.read()
    assert process.returncode == 0, said[-5000:] + logs(folder)
    return Run(folder, said, frozenset(listeners))


def listening(pid: int) -> set[tuple[str, str]]:
    """Title and address of every TCP socket on which the process or one below it listens."""
    found = set()
    with contextlib.suppress(psutil.NoSuchProcess):
        for child in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                words = child.cmdline() or [child.name()]
                for socket in child.net_connections(kind="tcp"):
                    if socket.status == psutil.CONN_LISTEN:
                        found.add((" ".join(words[:6]), socket.laddr.ip))
    return found


def logs(folder: Path) -> str:
    tails = [
        f"\n--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted((folder / "logs").glob("*.log"))
    ]
    return "".join(tails)
