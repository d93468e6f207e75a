"""Kills a process with SIGKILL before and after its every file operation, one operation per try.

A scenario runs in a forked child under a profiler that counts calls into the operating system's file
functions and kills the child at the n-th; no product code knows about it. The child acknowledges each
finished operation through a pipe, so the parent knows what must have survived.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FILE_CALLS = frozenset(
    (
        *(
            "write",
            "flush",
            "fsync",
            "replace",
            "rename",
            "mkdir",
            "rmdir",
            "unlink",
            "remove",
            "link",
            "symlink",
        ),
        *("truncate", "ftruncate", "ioctl", "pwrite", "sendfile", "copy_file_range"),
    )
)
NEVER = 0
_FAILED = 13

Scenario = Callable[[Path, Callable[[], Any]], None]
"""Works in a folder and calls its second argument after each operation that must from then on survive."""


class Outcome(NamedTuple):
    """How a child ended."""

    acknowledged: int
    killed_at: str
    """The file function it was killed in, and whether before or after; empty when it ran to its end."""
    operations: int


def run(scenario: Scenario, folder: Path, kill_at: int) -> Outcome:
    """Run a scenario in a child and kill it at the `kill_at`-th file operation (NEVER lets it finish)."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        _child(scenario, folder, kill_at, theirs)
    theirs.close()
    said = bytearray()
    while chunk := ours.recv(65536):
        said += chunk
    ours.close()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL), said.decode(errors="replace")
    lines = said.decode().splitlines()
    last = next((line.partition(" ")[2] for line in lines if line.startswith("killed ")), "")
    count = next((int(line.partition(" ")[2]) for line in lines if line.startswith("operations ")), 0)
    return Outcome(lines.count("done"), last, count)


def _child(scenario: Scenario, folder: Path, kill_at: int, pipe: socket.socket) -> None:
    seen = 0

    def profile(_: Any, event: str, function: Any) -> None:
        nonlocal seen
        if event not in ("c_call", "c_return") or function.__name__ not in FILE_CALLS:
            return
        seen += 1
        if seen == kill_at:
            pipe.send(f"killed {'before' if event == 'c_call' else 'after'} {function.__name__}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(profile)
        scenario(folder, lambda: pipe.send(b"done\n"))
        sys.setprofile(None)
        pipe.send(f"operations {seen}\n".encode())
        os._exit(0)
    finally:
        sys.setprofile(None)
        pipe.send(traceback.format_exc().encode())
        os._exit(_FAILED)


def every_kill(
    scenario: Scenario, begin: Callable[[Path], Any], folder: Path
) -> Iterator[tuple[Path, Outcome]]:
    """Kill the scenario at each of its file operations in turn; yields what is left and how it ended.

    `begin` prepares each folder before the child starts.
    """
    whole = folder / "whole"
    begin(whole)
    total = run(scenario, whole, NEVER).operations
    assert total > 0
    for kill_at in range(1, total + 1):
        place = folder / f"kill-{kill_at}"
        begin(place)
        outcome = run(scenario, place, kill_at)
        assert outcome.killed_at, f"nothing happened at operation {kill_at} of {total}"
        yield place, outcome
        shutil.rmtree(place)


class Tally:
    """Counts kills by file function, for the line that each test prints."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.kills: dict[str, int] = {}
        self.old = self.new = 0

    def add(self, outcome: Outcome, took_effect: bool) -> None:
        """One kill that was survived, with the operation under way undone or done."""
        self.kills[outcome.killed_at] = self.kills.get(outcome.killed_at, 0) + 1
        self.old, self.new = self.old + (not took_effect), self.new + took_effect

    @property
    def total(self) -> int:
        """Kills tried."""
        return sum(self.kills.values())

    def __str__(self) -> str:
        points = ", ".join(f"{count} {name}" for name, count in sorted(self.kills.items()))
        return (
            f"{self.what}: {self.total} kills, {self.old} went on from before the operation, {self.new} from"
            f" after it, 0 lost, 0 half-published ({points})"
        )
