"""The only file that runs dvc: one `dvc repro` for a whole run, read as a sequence of stages.

DVC decides what runs; this module reports what it announces (a stage unchanged, restored from its
cache, running, failed) so that the flow can show each stage in its true state. One dvc process for all
stages costs 1.5 s instead of 1.5 s a stage. Imports no Prefect.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from rlhf_pipeline import orphans, process
from rlhf_pipeline.errors import EnvironmentProblem, PipelineError, StageError
from rlhf_pipeline.paths import LOGS, workspace
from rlhf_pipeline.publish import write_text
from rlhf_pipeline.tracking import GROUP_VARIABLE

TICK_S = 1.0
GRACE_S = 12.0
_SKIPPED = re.compile(r"^Stage '([\w.-]+)' didn't change, skipping$")
_RESTORED = re.compile(r"^Stage '([\w.-]+)' is cached - skipping run, checking out outputs$")
_RUNNING = re.compile(r"^Running stage '([\w.-]+)':$")
_FAILED = re.compile(r"^ERROR: failed to reproduce '([\w.-]+)': (.*)$")
_LOCKED = re.compile(r"Unable to acquire lock|is busy, it is being blocked by")
_NOISE = re.compile(
    r"^(> |Updating lock file|Generating lock file|Use `dvc push`|To track the changes|\tgit add"
    r"|To enable auto staging|\tdvc config core\.autostage|Data and pipelines are up to date"
    r"|Verifying data sources)"
)

Status = Literal["ran", "unchanged", "restored", "failed"]


class Interrupted(PipelineError, RuntimeError):
    """The machine, not the input, stopped a stage: it was killed, or another dvc holds the lock."""


@dataclass(frozen=True)
class Outcome:
    """How one stage ended."""

    stage: str
    status: Status
    problem: str = ""
    infrastructure: bool = False

    @property
    def reason(self) -> str:
        """The problem's first line."""
        return next(iter(self.problem.splitlines()), "")


class Repro:
    """One `dvc repro` in a workspace; use it as a context manager that ends dvc and everything below it.

    `stages()` yields each stage's name when DVC comes to it; between two names, `play()` hands on that
    stage's output until it has ended.
    """

    def __init__(
        self,
        targets: Sequence[str] = (),
        *,
        single: bool = False,
        force: bool = False,
        folder: Path | None = None,
        group: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder or workspace()
        self.log = self.folder / LOGS / "dvc.log"
        flags = ["--single-item"] * single + ["--force"] * force
        self._command = [sys.executable, "-m", "dvc", "repro", *flags, *targets]
        named = {GROUP_VARIABLE: group} if group else {}
        self._env = dvc_environment(self.folder, {**named, **(env or {})})
        self._stack = ExitStack()
        self._pushed_back: str | None = None
        self._tail: deque[str] = deque(maxlen=400)
        self._failed = False

    def __enter__(self) -> Repro:
        forget_dead_locks(self.folder)
        self._child = self._stack.enter_context(
            process.running(
                self._command, log=self.log, env=self._env, name="dvc repro", cwd=self.folder, grace_s=GRACE_S
            )
        )
        self._output = self._child.output_or_tick(TICK_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def stages(self, on_tick: Callable[[], None] = lambda: None) -> Iterator[str]:
        """Each stage's name as DVC announces it.

        Raises:
            Interrupted, StageError: when dvc ends without a stage being at fault.
        """
        while (line := self._next(on_tick)) is not None:
            if stage := _announced(line):
                self._pushed_back = line
                yield stage
        if not self._failed:
            self._check()

    def play(
        self,
        stage: str,
        on_line: Callable[[str], None] = lambda line: None,
        on_tick: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Follow the announced stage to its end, handing on what it prints."""
        line = self._next(on_tick)
        if line is None or _announced(line) != stage:
            raise StageError(f"dvc did not come to stage {stage}; its output is in {self.log}")
        if _SKIPPED.match(line):
            return Outcome(stage, "unchanged")
        if _RESTORED.match(line):
            return Outcome(stage, "restored")
        self._tail.clear()
        if _FAILED.match(line):  # before it ran: a missing dependency, say
            self._pushed_back = line
        while (line := self._next(on_tick)) is not None:
            if failed := _FAILED.match(line):
                return self._failure(stage, failed.group(2))
            if _announced(line):
                self._pushed_back = line
                return Outcome(stage, "ran")
            if not _NOISE.match(line) and line.strip():
                self._tail.append(line)
                on_line(line)
        if self._exit_problem() is not None:
            return self._failure(stage, "")
        return Outcome(stage, "ran")

    def _next(self, on_tick: Callable[[], None]) -> str | None:
        if self._pushed_back is not None:
            line, self._pushed_back = self._pushed_back, None
            return line
        for item in self._output:
            if item is not None:
                return item
            on_tick()
        return None

    def _failure(self, stage: str, said: str) -> Outcome:
        self._failed = True
        problem = process.useful_tail(list(self._tail)) or said or "dvc ended without a message"
        locked = bool(_LOCKED.search(said))
        if locked:
            problem = "another dvc works in this workspace; wait for it to end, then run again"
        killed = re.search(r"exited with -\d+|exited with 1(37|43)$", said) is not None or (
            not said and self._exit_problem() is not None
        )
        if killed and not locked:
            problem = f"the stage was killed ({said.rpartition(', ')[2] or 'dvc was killed'}); {problem}"
        return Outcome(stage, "failed", problem, locked or killed or process.KILLED in problem)

    def _exit_problem(self) -> PipelineError | None:
        try:
            self._child.check()
        except (StageError, EnvironmentProblem) as error:
            return error
        return None

    def _check(self) -> None:
        problem = self._exit_problem()
        if problem is None:
            return
        if _LOCKED.search(self._child.tail()):
            raise Interrupted("another dvc works in this workspace; wait for it to end, then run again")
        if process.KILLED in str(problem):
            raise Interrupted(str(problem))
        raise problem


def dvc_environment(folder: Path, extra: Mapping[str, str]) -> dict[str, str]:
    """Environment of dvc and its stages: our Python first, the workspace's own code, no analytics."""
    scripts = str(Path(sys.executable).parent)
    code = [str(folder / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(part for part in code if part),
        "RLHF_PYTHON": sys.executable,
        "RLHF_WORKSPACE": str(folder),
        "DVC_NO_ANALYTICS": "1",
        **extra,
    }


def forget_dead_locks(folder: Path) -> None:
    """Take entries of dead processes off DVC's lock file: it keeps them, and their numbers come again."""
    file = folder / ".dvc" / "tmp" / "rwlock"
    if not file.exists():
        return
    book = json.loads(file.read_text(encoding="utf-8") or "{}")
    write = {path: held for path, held in book.get("write", {}).items() if _is_dvc(held["pid"])}
    read = {
        path: [held for held in every if _is_dvc(held["pid"])] for path, every in book.get("read", {}).items()
    }
    write_text(
        file, json.dumps({"write": write, "read": {path: every for path, every in read.items() if every}})
    )


def _is_dvc(pid: int) -> bool:
    return "dvc" in orphans.command_line(pid)


def save_experiment(folder: Path, name: str, stages: Sequence[str], log: Path) -> None:
    """Record the workspace's params, metrics and the stages' outputs as a DVC experiment (`dvc exp show`).

    Args:
        stages: those whose outputs are there; without names DVC wants every output of the pipeline.

    Raises:
        StageError: with dvc's reason.
    """
    command = [sys.executable, "-m", "dvc", "exp", "save", "--force", "--name", name, *stages]
    env = dvc_environment(folder, git_identity(folder))
    process.run(command, log=log, env=env, name="dvc exp save", cwd=folder)


def git_identity(folder: Path) -> dict[str, str]:
    """A name to commit experiments under, where git has been given none."""
    known = subprocess.run(
        ["git", "-C", str(folder), "config", "user.email"], capture_output=True, check=False
    )
    if known.returncode == 0:
        return {}
    sides = ("AUTHOR", "COMMITTER")
    names = {f"GIT_{side}_NAME": os.environ.get(f"GIT_{side}_NAME", "rlhf-pipeline") for side in sides}
    mails = {
        f"GIT_{side}_EMAIL": os.environ.get(f"GIT_{side}_EMAIL", "rlhf-pipeline@localhost") for side in sides
    }
    return names | mails


def _announced(line: str) -> str | None:
    for pattern in (_SKIPPED, _RESTORED, _RUNNING, _FAILED):
        if found := pattern.match(line):
            return found.group(1)
    return None
