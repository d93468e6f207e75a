"""The small process between a stage and the command it runs: nothing the command started outlives it.

Run as a script, `python -I -S supervisor.py GRACE_S LEDGER_FILE COMMAND...`, with a pipe from the
owner as standard input. Linux hands it every daemonised grandchild (sub-reaper), so Ray's and vLLM's
processes, which make their own sessions, stay in its tree. It ends the tree when the command ends,
when it gets SIGTERM, or when the pipe closes, which a SIGKILL of the owner does too. Standard library
only, and light to start. Not here: output, errors and the ledger's contents (process.py, orphans.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

LINGER_S = 2.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None once it is gone or a zombie.

    A process id can be used again; the pair (id, start) cannot.
    """
    fields = _stat(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def descendants(root: int) -> list[int]:
    """Every living process below `root`, whatever its session or group."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields is not None:
                children.setdefault(int(fields[1]), []).append(int(name))
    found, queue = [], [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return [pid for pid in found if start_ticks(pid) is not None]


def _stat(pid: int) -> list[str] | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def _signal(pid: int, number: int, group: bool = False) -> None:
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(pid, number)


class Supervisor:
    """Starts one command, reaps everything below it, ends the tree in bounded time."""

    def __init__(self, command: list[str], grace_s: float) -> None:
        self.grace_s = grace_s
        self.exit_code: int | None = None
        self.stop_requests = 0
        self._wake, wake_write = os.pipe()
        for end in (self._wake, wake_write):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake_write)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # The command dies with a killed supervisor; the ledger and the marker find what it leaves.
        self.pid = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        ).pid

    def _on_stop(self, number: int, frame: object) -> None:
        self.stop_requests += 1

    def run(self) -> int:
        """Wait for the command, or for a reason to stop it; return its exit code (128 + N for signal N)."""
        owner_lives = True
        while self.exit_code is None and owner_lives and not self.stop_requests:
            owner_lives = self._wait(None, watch_owner=True)
        stopped = self.exit_code is None
        if stopped:
            _signal(self.pid, signal.SIGTERM, group=True)
            self._wait_until(lambda: self.exit_code is not None, self.grace_s)
        elif descendants(os.getpid()):
            self._wait_until(lambda: not descendants(os.getpid()), LINGER_S)
        self._end_tree()
        return 128 + signal.SIGTERM if self.exit_code is None else self.exit_code

    def _end_tree(self) -> None:
        for pid in descendants(os.getpid()):
            _signal(pid, signal.SIGTERM)
        self._wait_until(lambda: not descendants(os.getpid()), LINGER_S)
        while left := descendants(os.getpid()):
            for pid in left:
                _signal(pid, signal.SIGKILL)
            self._wait(0.05)
        self._reap()

    def _wait_until(self, done: object, timeout_s: float) -> None:
        deadline, asked = time.monotonic() + timeout_s, self.stop_requests
        # A second request to stop ends the patience.
        while not done() and time.monotonic() < deadline and self.stop_requests <= max(asked, 1):  # type: ignore[operator]
            self._wait(0.1)

    def _wait(self, timeout_s: float | None, watch_owner: bool = False) -> bool:
        """Sleep until a signal, a child's end or the timeout; False once the owner's pipe is closed."""
        watched = [self._wake, 0] if watch_owner else [self._wake]
        ready, _, _ = select.select(watched, [], [], timeout_s)
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        self._reap()
        return not (0 in ready and not os.read(0, 4096))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.pid:
                code = os.waitstatus_to_exitcode(status)
                self.exit_code = code if code >= 0 else 128 - code


def main(arguments: list[str]) -> int:
    grace_s, ledger_file, *command = arguments
    try:
        return Supervisor(command, float(grace_s)).run()
    except OSError as error:
        print(f"error: cannot start {command[0]}: {error.strerror}", flush=True)
        return 127
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(ledger_file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
