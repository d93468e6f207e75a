"""The ledger of started processes, and the refusal to start beside one that outlived its run.

Each command that process.py starts has a file in `.rlhf/processes` while it lives, and carries its
run's id in its environment (`RLHF_RUN_ID`, nested ids joined by "/"), by which its descendants are
found even after their supervisor was killed. Linux only: everything is read from /proc. Ending the
tree in the normal course is supervisor.py's.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .errors import EnvironmentProblem
from .paths import PROCESSES, workspace
from .publish import write_json
from .supervisor import descendants, start_ticks

MARKER = "RLHF_RUN_ID"
_POLL_S = 0.5
_ENDING_S = 15.0
_following = threading.Lock()


@dataclass(frozen=True)
class Entry:
    """One started command: `pid` is its supervisor, `owner_pid` the process that asked for it."""

    run_id: str
    name: str
    command: list[str]
    pid: int
    pid_start_ticks: int | None
    owner_pid: int
    owner_start_ticks: int | None
    boot_id: str

    @property
    def file(self) -> Path:
        return ledger_file(self.run_id)

    def owner_lives(self) -> bool:
        return self.boot_id == boot_id() and is_same_process(self.owner_pid, self.owner_start_ticks)

    def supervised(self) -> bool:
        return self.boot_id == boot_id() and is_same_process(self.pid, self.pid_start_ticks)

    def survivors(self) -> list[int]:
        """Living processes of this command: its supervisor, its tree, everything that carries its id."""
        if self.boot_id != boot_id():
            return []
        tree = [self.pid, *descendants(self.pid)] if self.supervised() else []
        return sorted({*tree, *marked(self.run_id)})


def ledger_file(run_id: str) -> Path:
    return workspace() / PROCESSES / f"{run_id}.json"


def record(run_id: str, name: str, command: Sequence[str], pid: int) -> Entry:
    """Write down a command this process has just started."""
    me = os.getpid()
    entry = Entry(
        run_id=run_id,
        name=name,
        command=list(command),
        pid=pid,
        pid_start_ticks=start_ticks(pid),
        owner_pid=me,
        owner_start_ticks=start_ticks(me),
        boot_id=boot_id(),
    )
    write_json(entry.file, asdict(entry))
    return entry


def entries() -> list[Entry]:
    """The ledger's entries, oldest first."""
    files = sorted((workspace() / PROCESSES).glob("*.json"), key=lambda file: file.name)
    found = []
    for file in files:
        try:
            found.append(Entry(**json.loads(file.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            continue  # its command ended just now
        except (json.JSONDecodeError, TypeError):
            raise EnvironmentProblem(
                f"{file} is damaged; look at `ps` for left-over processes, then delete it"
            ) from None
    return found


def refuse_orphans() -> None:
    """Forget ended entries; fail when a process outlived the run that started it.

    Raises:
        EnvironmentProblem: naming each such process and how to end it.
    """
    problems = []
    for entry in entries():
        if entry.owner_lives():
            continue
        deadline = time.monotonic() + _ENDING_S
        while entry.supervised() and time.monotonic() < deadline:
            time.sleep(0.1)  # its supervisor is ending the tree
        pids = entry.survivors()
        if not pids:
            entry.file.unlink(missing_ok=True)
            continue
        lines = "\n".join(f"  {pid}: {command_line(pid)}" for pid in pids)
        problems.append(
            f"the run that started '{entry.name}' is dead, but its processes live on and may write here:\n"
            f"{lines}\nend them with: kill -9 {' '.join(map(str, pids))}"
        )
    if problems:
        raise EnvironmentProblem("\n".join(problems))


def marked(run_id: str) -> list[int]:
    """Living processes whose environment carries the run's id."""
    wanted = run_id.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and wanted in _variable(int(name), MARKER).split(b"/") and start_ticks(int(name)):
            found.append(int(name))
    return found


def kill_marked(run_id: str) -> None:
    """SIGKILL every process that carries the run's id; for the case that its supervisor was killed."""
    for _ in range(20):
        pids = marked(run_id)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not pids:
            return
        time.sleep(0.1)


def follow_dvc() -> None:
    """End this stage with SIGTERM when the `dvc` that started it dies, even by SIGKILL.

    Otherwise the stage would write on beside the next `dvc repro`. Does nothing outside DVC.
    """
    stage = os.environ.get("DVC_STAGE", "").encode()
    if stage:
        pid = os.getppid()
        # Some shells stay between DVC and the stage; they carry DVC_STAGE, DVC itself does not.
        while pid > 1 and _variable(pid, "DVC_STAGE") == stage:
            pid = _parent(pid)
        follow(pid)


def follow(pid: int) -> None:
    """End this process when process `pid` dies: SIGTERM, then SIGKILL. Only the first call does something."""
    if not _following.acquire(blocking=False):
        return
    started = start_ticks(pid)

    def watch() -> None:
        while is_same_process(pid, started):
            time.sleep(_POLL_S)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_ENDING_S)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="follow-parent", daemon=True).start()


def command_line(pid: int) -> str:
    """A process's command line, shortened, for messages."""
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return "(ended)"
    return text if len(text) <= 120 else text[:117] + "..."


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def is_same_process(pid: int, started: int | None) -> bool:
    """Whether process `pid` lives and is the one that started then, not a later one of that number."""
    return started is not None and start_ticks(pid) == started


def _parent(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    return 0


def _variable(pid: int, name: str) -> bytes:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    prefix = name.encode() + b"="
    for item in environment.split(b"\0"):
        if item.startswith(prefix):
            return item[len(prefix) :]
    return b""
