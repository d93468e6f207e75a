"""Real commands: what they print, how they fail, and that nothing they start is left when they end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlhf_pipeline import orphans, process
from rlhf_pipeline.errors import EnvironmentProblem, StageError
from rlhf_pipeline.supervisor import descendants, start_ticks

# Forks twice and starts a new session with an empty environment, as a daemon does.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 3)
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {})
"""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLHF_WORKSPACE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def alive_with(mark: str) -> list[int]:
    """Living processes whose command line holds `mark`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = file.read_text(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark in text and start_ticks(int(file.parent.name)) is not None:
            found.append(int(file.parent.name))
    return found


def ledger(workspace: Path) -> list[Path]:
    return list((workspace / ".rlhf/processes").glob("*.json"))


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    yield
    for pid in descendants(os.getpid()):
        os.kill(pid, signal.SIGKILL)


def owner(workspace: Path, body: str) -> subprocess.Popen[bytes]:
    """A process of its own that runs `body` with `run` imported."""
    imports = "from pathlib import Path\nimport sys\nfrom rlhf_pipeline.process import run\n"
    code = imports + textwrap.dedent(body)

    def hear_signals() -> None:  # nohup and background jobs of shells leave some ignored
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=workspace, start_new_session=True, preexec_fn=hear_signals
    )


def test_output_goes_to_the_log_and_line_by_line_to_the_caller(workspace: Path) -> None:
    lines: list[str] = []
    code = "import os, sys; print('one'); print('two', file=sys.stderr); print(os.environ['EXTRA'])"
    process.run(python(code), log=Path("logs/a.log"), env={"EXTRA": "three"}, on_line=lines.append, name="a")
    assert sorted(lines) == ["one", "three", "two"]
    assert sorted((workspace / "logs/a.log").read_text().split()) == ["one", "three", "two"]
    assert ledger(workspace) == []


def test_carriage_returns_of_progress_bars_end_lines() -> None:
    lines: list[str] = []
    process.run(python(r"print('10%\r20%\r30%')"), log=Path("a.log"), on_line=lines.append, name="a")
    assert lines == ["10%", "20%", "30%"]


def test_the_log_of_the_run_before_is_kept_once(workspace: Path) -> None:
    (workspace / "kept.log").write_text("before\n")
    for word in ("first", "second"):
        process.run(python(f"print('{word}')"), log=Path("kept.log"), name="a")
    assert (workspace / "kept.log.1").read_text() == "before\n"
    assert (workspace / "kept.log").read_text() == "first\nsecond\n"


def test_a_failure_shows_the_exception_and_the_log() -> None:
    code = "print('noise\\n' * 50)\nraise ValueError('the batch of 7 does not divide by 2')"
    with pytest.raises(StageError) as caught:
        process.run(python(code), log=Path("logs/b.log"), name="trainer")
    assert str(caught.value) == (
        "trainer ended with exit code 1; the whole output is in logs/b.log\n"
        "  ValueError: the batch of 7 does not divide by 2"
    )


def test_an_error_that_is_the_users_is_passed_on_alone() -> None:
    code = (
        "import sys; print('noise'); print('error: no column x\\n  found: y', file=sys.stderr); sys.exit(2)"
    )
    with pytest.raises(StageError) as caught:
        process.run(python(code), log=Path("b.log"), name="trainer")
    assert str(caught.value) == "no column x\n  found: y"


def test_a_command_that_does_not_exist_is_named() -> None:
    with pytest.raises(StageError, match="cannot start no-such-command: No such file"):
        process.run(["no-such-command"], log=Path("b.log"), name="x")


def test_a_killed_command_says_by_which_signal() -> None:
    with pytest.raises(StageError, match="was killed by SIGKILL"):
        process.run(python("import os; os.kill(os.getpid(), 9)"), log=Path("b.log"), name="x")


def test_a_full_disk_is_named_and_ends_the_command(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_opened_logs", {Path("/dev/full")})
    (workspace / "full.log").symlink_to("/dev/full")
    with pytest.raises(EnvironmentProblem, match=r"no space left on the disk while writing full\.log"):
        process.run(
            python("import time; print('x', flush=True); time.sleep(60)"), log=Path("full.log"), name="x"
        )


def test_an_error_in_the_callers_line_handler_ends_the_command(workspace: Path) -> None:
    def handler(line: str) -> None:
        raise RuntimeError(line)

    code = "print('seen', flush=True)\nimport time; time.sleep(61.5)"
    with pytest.raises(RuntimeError, match="seen"):
        process.run(python(code), log=Path("c.log"), on_line=handler, name="x")
    assert alive_with("sleep(61.5)") == []


def test_a_daemonised_grandchild_is_gone_when_the_command_ends() -> None:
    process.run(python(DAEMON.replace("60", "62.5")), log=Path("d.log"), name="x")
    assert alive_with("time.sleep(62.5)") == []


def test_a_child_that_ignores_sigterm_is_killed(workspace: Path) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(63.5)"
    began = time.monotonic()
    with process.running(python(code), log=Path("e.log"), name="x", grace_s=0.2) as child:
        assert next(child.output()) == "up"
        assert child.alive
    assert alive_with("sleep(63.5)") == []
    assert time.monotonic() - began < 8
    assert ledger(workspace) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_no_signal_to_the_owner_leaves_anything_behind(workspace: Path, number: signal.Signals) -> None:
    seconds = 70.5 + int(number)
    nested = DAEMON.replace("60", str(seconds)) + f"\nprint('up', flush=True); time.sleep({seconds})"
    body = f"run([sys.executable, '-c', {nested!r}], log=Path('f.log'), name='x')"
    process_ = owner(workspace, body)
    # The owner, the supervisor, the command and its daemon all carry the number in their command line.
    assert eventually(lambda: len(alive_with(f"sleep({seconds})")) == 4, 30)
    assert len(ledger(workspace)) == 1
    process_.send_signal(number)
    code = process_.wait(timeout=15)
    assert code == -9 if number == signal.SIGKILL else code != 0
    assert eventually(lambda: not alive_with(f"sleep({seconds})"), 12)
    assert eventually(lambda: not ledger(workspace), 2)


def test_a_killed_supervisor_does_not_leave_its_owner_waiting(workspace: Path) -> None:
    code = """
        import os, signal, time
        print("up", flush=True)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    """
    began = time.monotonic()
    with pytest.raises(StageError):
        process.run(python(code), log=workspace / "log", name="orphaned")
    assert time.monotonic() - began < 30


def test_output_held_open_by_another_tree_does_not_leave_the_owner_waiting(workspace: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workspace / "socket"))
        listener.listen()
        code = f"""
            import socket
            print("up", flush=True)
            with socket.socket(socket.AF_UNIX) as there:
                there.connect({str(workspace / "socket")!r})
                socket.send_fds(there, [b"x"], [1])
                there.recv(1)
        """
        holders = []

        def hold(line: str) -> None:
            connection, _ = listener.accept()
            holders.extend(socket.recv_fds(connection, 1, 1)[1])
            connection.sendall(b"x")

        began = time.monotonic()
        process.run(python(code), log=workspace / "log", on_line=hold, name="held")
        assert time.monotonic() - began < 30
        assert len(holders) == 1
        os.close(holders[0])


def test_an_earlier_sigterm_handler_still_gets_the_signal(workspace: Path) -> None:
    body = """
    import signal
    def handler(number, frame):
        Path('handled').write_text(str(number))
        sys.exit(3)
    signal.signal(signal.SIGTERM, handler)
    code = "print('up', flush=True); import time; time.sleep(64.5)"
    run([sys.executable, '-c', code], log=Path('g.log'), name='x')
    """
    process_ = owner(workspace, body)
    assert eventually(lambda: (workspace / "g.log").exists() and "up" in (workspace / "g.log").read_text())
    process_.terminate()
    assert process_.wait(timeout=15) == 3
    assert (workspace / "handled").read_text() == "15"
    assert alive_with("sleep(64.5)") == []


def test_an_orphan_is_named_and_refused_until_it_is_gone(workspace: Path) -> None:
    child = "import os; os.spawnlp(os.P_WAIT, 'sleep', 'sleep', '65.5')"
    process_ = owner(workspace, f"run([sys.executable, '-c', {child!r}], log=Path('h.log'), name='ppo')")
    assert eventually(lambda: ledger(workspace) and len(orphans.entries()[0].survivors()) == 3)
    [entry] = orphans.entries()
    os.kill(entry.pid, signal.SIGSTOP)
    process_.kill()
    process_.wait()
    os.kill(entry.pid, signal.SIGKILL)  # the supervisor as well: nobody is left to end the tree
    assert eventually(lambda: len(entry.survivors()) == 1)
    [orphan] = entry.survivors()
    with pytest.raises(
        EnvironmentProblem, match=f"'ppo' is dead.*\n  {orphan}: sleep 65.5\n.*kill -9 {orphan}$"
    ):
        process.run(python("print()"), log=Path("i.log"), name="next")
    os.kill(orphan, signal.SIGKILL)
    assert eventually(lambda: start_ticks(orphan) is None)
    process.run(python("print()"), log=Path("i.log"), name="next")
    assert ledger(workspace) == []


def test_a_ledger_entry_of_an_earlier_boot_is_forgotten(workspace: Path) -> None:
    entry = orphans.record("abc", "ppo", ["x"], os.getpid())
    entry.file.write_text(entry.file.read_text().replace(entry.boot_id, "another-boot"))
    orphans.refuse_orphans()
    assert ledger(workspace) == []


def test_a_damaged_ledger_entry_is_named(workspace: Path) -> None:
    (workspace / ".rlhf/processes").mkdir(parents=True)
    (workspace / ".rlhf/processes/x.json").write_text("{")
    with pytest.raises(EnvironmentProblem, match=r"x\.json is damaged"):
        orphans.refuse_orphans()


def test_a_stage_ends_when_its_dvc_is_killed(workspace: Path) -> None:
    stage = "from rlhf_pipeline.orphans import follow_dvc; follow_dvc(); import time; time.sleep(66.5)"
    parent = f"""
    import os, subprocess, sys
    env = {{**os.environ, "DVC_STAGE": "sft"}}
    subprocess.run(["/bin/sh", "-c", sys.executable + " -c '{stage}'; true"], env=env)
    """
    dvc = subprocess.Popen(python(parent), start_new_session=True)
    assert eventually(lambda: len(alive_with("sleep(66.5)")) >= 3)
    time.sleep(0.5)
    dvc.kill()
    dvc.wait()
    assert eventually(lambda: not [pid for pid in alive_with("sleep(66.5)") if pid != dvc.pid], 5)
