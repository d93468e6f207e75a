"""Kills one real run of a stage and looks at what is left; `python -m benchmarks.faults` does it in series.

A kill is either put in place inside the run (tests/faults/inject: SIGKILL at a named moment) or comes from
outside, to one of the run's processes while it trains. Nothing of the product is replaced.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from rlhf_pipeline import paths, publish
from rlhf_pipeline.checkpoints.book import Entry
from rlhf_pipeline.checkpoints.restore import verified
from rlhf_pipeline.checkpoints.view import LedgerView
from rlhf_pipeline.errors import CheckpointError

ROOT = Path(__file__).resolve().parents[1]
INJECT = ROOT / "tests" / "faults" / "inject"
ENDING_S = 30.0
RUN_S = 400.0
AFTER_KILL_S = 120.0
OUTPUTS = {"sft": paths.SFT_MODEL, "reward_model": paths.REWARD_MODEL, "ppo": paths.POLICY}


@dataclass(frozen=True)
class Kill:
    """One kill to try: a fault of fault_points.py, or a process to kill in the middle of training."""

    point: str
    """Its name in the table."""
    fault: str = ""
    victim: str = ""
    command: str = "stage"
    """stage, dvc or flow: what the user had started."""


@dataclass(frozen=True)
class Left:
    """What a killed run left behind."""

    stage: str
    point: str
    killed: bool
    """The kill took place (the run did not end before it)."""
    committed: int | None
    """Newest step that the ledger names, which the next start must go on from."""
    finished: bool
    lost: tuple[str, ...]
    orphans: tuple[str, ...]
    half_published: tuple[str, ...]
    wall_s: float


def environment(folder: Path, fault: str = "") -> dict[str, str]:
    """The user's environment, with the workspace's own code and, where asked, a fault."""
    code = [str(INJECT)] * bool(fault) + [str(folder / "src"), str(folder)]
    return {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(code),
        "RLHF_PYTHON": sys.executable,
        "RLHF_WORKSPACE": str(folder),
        "HF_HUB_OFFLINE": "1",
        "DVC_NO_ANALYTICS": "1",
        "FAULT": fault,
    }


def start(folder: Path, stage: str, command: str = "stage", fault: str = "") -> subprocess.Popen[bytes]:
    """Start a stage as its user would, its output in a file of the workspace."""
    words = {
        "stage": ["-m", f"stages.{stage}"],
        "dvc": ["-m", "dvc", "repro", "--single-item", "--force", stage],
        "flow": ["-m", "flows.train"],
    }[command]
    log = folder / paths.LOGS / "kills.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment(folder, fault),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def ledger_of(folder: Path, stage: str) -> LedgerView | None:
    """The newest run's ledger, as it stands on the disk."""
    found = sorted((folder / paths.SCRATCH / stage).glob("*/ledger"), key=lambda path: path.stat().st_mtime)
    return LedgerView.read(found[-1]) if found else None


def newest(ledger: LedgerView | None) -> int | None:
    """The newest committed step."""
    live = ledger.book.live() if ledger is not None else []
    return live[-1].step if live else None


def kill(folder: Path, stage: str, plan: Kill) -> Left:
    """Start the stage, kill it as planned, wait for its end and judge what is left."""
    before, began = ledger_of(folder, stage), time.monotonic()
    known = before.book.live() if before is not None else []
    process = start(folder, stage, plan.command, plan.fault.format(next=(newest(before) or 0) + 1))
    killed = True
    try:
        if plan.victim:
            killed = _strike(process, folder, stage, plan.victim)
        code = process.wait(AFTER_KILL_S if plan.victim else RUN_S)
    except subprocess.TimeoutExpired:
        print(f"{stage}: {plan.point}: the run hangs after the kill", flush=True)
        killed, code = False, 1
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if plan.fault:
        killed = killed and code != 0
    left = _wait_for_end(folder, process.pid)
    after = ledger_of(folder, stage)
    return Left(
        stage,
        plan.point,
        killed,
        newest(after),
        after is not None and after.finished is not None,
        tuple(_lost(after, known)),
        tuple(left),
        tuple(_half_published(folder)),
        round(time.monotonic() - began, 1),
    )


def _strike(process: subprocess.Popen[bytes], folder: Path, stage: str, victim: str) -> bool:
    """SIGKILL the victim once the run has committed a step of its own and logged another after it."""
    attempts = set((folder / paths.SCRATCH / stage).glob("*/metrics/*.jsonl"))
    start = newest(ledger_of(folder, stage))

    def trains() -> bool:
        new = set((folder / paths.SCRATCH / stage).glob("*/metrics/*.jsonl")) - attempts
        committed = newest(ledger_of(folder, stage))
        return committed not in (None, 0, start) and any(
            step > committed for path in new for step in _steps(path)
        )

    while not trains():
        if process.poll() is not None:
            return False
        time.sleep(0.02)
    pids = VICTIMS[victim](process)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return bool(pids)


def _steps(path: Path) -> list[int]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [step for line in lines if line.endswith("}") and (step := json.loads(line)["step"]) > 0]


def _below(process: subprocess.Popen[bytes]) -> list[tuple[psutil.Process, list[str]]]:
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            found.append((child, child.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def _named(title: str) -> Callable[[subprocess.Popen[bytes]], list[int]]:
    return lambda process: [
        child.pid for child, words in _below(process) if words and words[0].startswith(title)
    ][:1]


def _with_word(ending: str) -> Callable[[subprocess.Popen[bytes]], list[int]]:
    return lambda process: [
        child.pid for child, words in _below(process) if any(word.endswith(ending) for word in words[:5])
    ][:1]


def _parent_of_raylet(process: subprocess.Popen[bytes]) -> list[int]:
    return [child.ppid() for child, words in _below(process) if words and words[0].endswith("/raylet")]


def _vllm_engine(process: subprocess.Popen[bytes]) -> list[int]:
    servers = {
        child.pid for child, words in _below(process) if words and words[0].startswith("ray::vLLMHttpServer")
    }
    return [
        child.pid
        for child, words in _below(process)
        if child.ppid() in servers and any("spawn_main" in word for word in words)
    ][:1]


def _rank(process: subprocess.Popen[bytes]) -> list[int]:
    """The training process of SFT or reward model, not the supervisor that carries its command line."""
    return [
        child.pid
        for child, words in _below(process)
        if any(word.endswith("_driver") for word in words)
        and not any(word.endswith("supervisor.py") for word in words)
    ]


VICTIMS: dict[str, Callable[[subprocess.Popen[bytes]], list[int]]] = {
    "command": lambda process: [process.pid],
    "supervisor": _with_word("supervisor.py"),
    "driver": _parent_of_raylet,
    "rank": _rank,
    "raylet": _with_word("/raylet"),
    "worker": _named("ray::WorkerDict"),
    "vllm_server": _named("ray::vLLMHttpServer"),
    "vllm_engine": _vllm_engine,
    "reward_worker": _named("ray::RewardLoopWorker"),
    "agent_loop_worker": _named("ray::AgentLoopWorker"),
}
"""Which processes of a run a kill from outside meets."""


def _wait_for_end(folder: Path, session: int) -> list[str]:
    """What still runs in the workspace after ENDING_S, in words; ended for the next kill's sake."""
    deadline = time.monotonic() + ENDING_S
    while (living := _living(folder, session)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for child in living:
        child.kill()
    return [f"{child.pid} {child.name()}" for child in living]


def _living(folder: Path, session: int) -> list[psutil.Process]:
    ids = [f"RLHF_WORKSPACE={folder}".encode()]
    found = []
    for child in psutil.process_iter():
        try:
            variables = Path(f"/proc/{child.pid}/environ").read_bytes().split(b"\0")
            if child.status() != psutil.STATUS_ZOMBIE and any(name in variables for name in ids):
                found.append(child)
        except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            continue
    return found


def _lost(ledger: LedgerView | None, known: list[Entry]) -> list[str]:
    """Committed steps that are gone without a word, or that do not verify."""
    if ledger is None:
        return [f"step {entry.step} with its ledger" for entry in known]
    there = {(entry.step, entry.rollbacks) for entry in ledger.book.entries}
    lost = [
        f"step {entry.step} is not in the ledger"
        for entry in known
        if (entry.step, entry.rollbacks) not in there
    ]
    for entry in ledger.book.live():
        try:
            verified(ledger.files.path(entry.step), entry, ledger.rollbacks, ())
        except CheckpointError as error:
            lost.append(str(error))
    return lost


def _half_published(folder: Path) -> list[str]:
    problems = []
    for output in OUTPUTS.values():
        if (folder / output).exists():
            try:
                publish.verify(folder / output)
            except CheckpointError as error:
                problems.append(str(error))
    return problems


def resumed_at(folder: Path, stage: str) -> list[int]:
    """The steps that each start of the newest run went on from, in order."""
    ledger = ledger_of(folder, stage)
    events = ledger.events() if ledger is not None else []
    return [event["step"] for event in events if event["kind"] == "resumed"]


def to_json(left: Left) -> str:
    return json.dumps(asdict(left))
