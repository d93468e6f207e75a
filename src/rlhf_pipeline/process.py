"""Runs a command so that it never outlives its owner: output to a log, the whole tree ended on any exit.

`run` waits for a command, `running` keeps a server alive for a `with` block. Both survive Ctrl-C,
SIGTERM, SIGHUP, exceptions and SIGKILL of the owner without leaving a process behind
(supervisor.py does the ending), and both refuse to start beside an orphan of an earlier run
(orphans.py). Not here: what to run, and progress bars.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from . import supervisor
from .errors import USER_ERROR_EXIT_CODE, EnvironmentProblem, StageError
from .orphans import MARKER, follow_dvc, kill_marked, ledger_file, record, refuse_orphans

__all__ = ["Child", "run", "running", "useful_tail"]

GRACE_S = 5.0
STRAGGLERS_S = 3.0
KILLED = "was killed by SIG"
"""Part of the message of a StageError whose command ended by a signal."""
_TAIL_LINES = 400
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
_CAUSE = re.compile(r"^(\([^)]*\)\s*)?(\[[^\]]*\]:?\s*)?[\w.]*(Error|Exception|Problem|Interrupt)\b.*")
_opened_logs: set[Path] = set()


class _Terminated(BaseException):
    """SIGTERM or SIGHUP arrived while a child ran."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def run(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    name: str,
    cwd: Path | None = None,
    grace_s: float = GRACE_S,
) -> None:
    """Run a command to its end; its output goes to `log`, and line by line to `on_line`.

    `env` is added to this process's environment, `cwd` is the command's folder, and `grace_s` the time
    between SIGTERM and SIGKILL.

    Raises:
        StageError: when the command fails, with the last useful lines of its output.
        EnvironmentProblem: when an orphan of an earlier run lives, or the disk is full.
    """
    with _started(command, log, env, name, cwd, grace_s) as child:
        for line in child.output():
            if on_line is not None:
                on_line(line)
        child.check()


@contextlib.contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    name: str,
    cwd: Path | None = None,
    grace_s: float = GRACE_S,
) -> Iterator[Child]:
    """Start a command, hand it to the block, and end it and all it started when the block ends.

    Raises as `run` does, but for the command's failure: ask `child.check()`.
    """
    with _started(command, log, env, name, cwd, grace_s) as child:
        yield child


class Child:
    """A running command and the thread that copies its output to the log. Made by `run` and `running`."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str],
        name: str,
        cwd: Path | None,
        grace_s: float,
    ) -> None:
        self.name, self.log = name, log
        self.run_id = uuid.uuid4().hex[:16]
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._disk_full = False
        self._file = _open_log(log)
        outer = os.environ.get(MARKER)
        environment = {
            **os.environ,
            "PYTHONUNBUFFERED": "1",
            "SPT_NOENV": "1",  # setproctitle (Ray, vLLM) would overwrite the marker in /proc
            **env,
            MARKER: f"{outer}/{self.run_id}" if outer else self.run_id,
        }
        watched = [
            sys.executable,
            "-I",
            "-S",
            supervisor.__file__,
            str(grace_s),
            str(ledger_file(self.run_id)),
        ]
        self._popen = subprocess.Popen(
            [*watched, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
        record(self.run_id, name, command, self._popen.pid)
        self._pump = threading.Thread(target=self._copy_output, name=f"log-{name}", daemon=True)
        self._pump.start()
        self._end = threading.Thread(target=self._end_stragglers, name=f"end-{name}", daemon=True)
        self._end.start()

    def output(self) -> Iterator[str]:
        """The output's lines as they come, until the command has ended."""
        return (line for line in self.output_or_tick(None) if line is not None)

    def output_or_tick(self, tick_s: float | None) -> Iterator[str | None]:
        """As `output`, with None whenever `tick_s` pass without a line."""
        while True:
            try:
                line = self._lines.get(timeout=tick_s)
            except queue.Empty:
                yield None
                continue
            if line is None:
                return
            yield line

    @property
    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._popen.poll() is None

    def check(self) -> None:
        """Wait for the command's end.

        Raises:
            StageError: when it failed.
            EnvironmentProblem: when its log could not be written.
        """
        code = self._popen.wait()
        self._end.join()
        if self._disk_full:
            raise EnvironmentProblem(f"no space left on the disk while writing {self.log}")
        if code != 0:
            raise StageError(_failure_message(self.name, code, list(self._tail), self.log))

    def tail(self) -> str:
        """The last useful lines of the output so far."""
        return useful_tail(list(self._tail))

    def stop(self) -> None:
        """End the command and all it started; returns when they are gone."""
        assert self._popen.stdin is not None
        try:
            while True:
                try:
                    self._popen.terminate()
                    self._popen.wait()
                    break
                except (KeyboardInterrupt, _Terminated):
                    continue  # asked again: a second terminate() makes the supervisor kill at once
        finally:
            self._popen.stdin.close()
        kill_marked(self.run_id)
        self._end.join()
        ledger_file(self.run_id).unlink(missing_ok=True)
        if not self._pump.is_alive():
            self._file.close()

    def _end_stragglers(self) -> None:
        """The output ends with the command: what holds it open longer is ended, or no longer waited for.

        That is the tree of a killed supervisor, or a process of another tree (a warm fork) that was
        handed the pipe and is ended with that tree.
        """
        self._popen.wait()
        self._pump.join(STRAGGLERS_S)
        if self._pump.is_alive():
            kill_marked(self.run_id)
            self._pump.join(STRAGGLERS_S)
            self._lines.put(None)

    def _copy_output(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            if not self._disk_full:
                try:
                    self._file.write(line.encode())
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    self._disk_full = True
                    self._popen.terminate()
            text = line.rstrip("\n")
            self._tail.append(text)
            self._lines.put(text)
        self._lines.put(None)


@contextlib.contextmanager
def _started(
    command: Sequence[str],
    log: Path,
    env: Mapping[str, str] | None,
    name: str,
    cwd: Path | None,
    grace_s: float,
) -> Iterator[Child]:
    follow_dvc()
    refuse_orphans()
    child = None
    with _interruptible():
        try:
            child = Child(command, log, env or {}, name, cwd, grace_s)
            yield child
        finally:
            if child is not None:
                child.stop()


def useful_tail(lines: Sequence[str], count: int = 8) -> str:
    """The lines of an output that say why it failed: the user's error, the exception, or the last lines."""
    text = [line.rstrip() for line in lines if line.strip()]
    for index in range(len(text) - 1, -1, -1):
        if text[index].startswith("error: "):
            return "\n".join([text[index].removeprefix("error: "), *text[index + 1 : index + count]])
    for index in range(len(text) - 1, -1, -1):
        if _CAUSE.match(text[index]):
            return "\n".join(text[index : index + count])
    return "\n".join(text[-count:])


def _failure_message(name: str, code: int, lines: Sequence[str], log: Path) -> str:
    tail = useful_tail(lines)
    if code == USER_ERROR_EXIT_CODE and any(line.startswith("error: ") for line in lines):
        return tail
    killed_by = signal.Signals(code - 128).name if code - 128 in list(signal.Signals) else None
    how = f"{KILLED}{killed_by.removeprefix('SIG')}" if killed_by else f"ended with exit code {code}"
    if killed_by == "SIGKILL":
        how += " (the kernel does this when memory runs out)"
    shown = "\n".join(f"  {line}" for line in tail.splitlines())
    return f"{name} {how}; the whole output is in {log}" + (f"\n{shown}" if shown else "")


def _open_log(log: Path) -> IO[bytes]:
    """Open a log for this process: a new file the first time (the old one kept as .1), then append."""
    log.parent.mkdir(parents=True, exist_ok=True)
    where = log.resolve()
    if where not in _opened_logs and log.exists():
        os.replace(log, log.with_name(log.name + ".1"))
    _opened_logs.add(where)
    return log.open("ab", buffering=0)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP, which would end this process at once, into an unwinding of the block.

    A signal that already has a handler keeps it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, frame: FrameType | None) -> None:
        raise _Terminated(number)

    replaced = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, unwind)
    try:
        yield
    except _Terminated as stop:
        raise KeyboardInterrupt(f"stopped by {signal.Signals(stop.number).name}") from None
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
