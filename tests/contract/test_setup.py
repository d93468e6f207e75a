"""scripts/setup.sh on machines that lack something: one line that names it, and nothing is made.

Each test runs the real script with a PATH of its own; whole installations are not repeated here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = (
    "awk",
    "bash",
    "cat",
    "cut",
    "dirname",
    "getconf",
    "git",
    "head",
    "make",
    "mkdir",
    "realpath",
    "rm",
    "sha256sum",
    "sort",
    "uname",
)


class Machine:
    """A folder with a copy of the set-up, and a PATH of chosen programs."""

    def __init__(self, folder: Path) -> None:
        self.project, self.bin = folder / "project", folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, f"the tests need {tool}"
            (self.bin / tool).symlink_to(found)
        self.program("df", "echo head; echo disk 1 1 99999999 1% /")
        locks = ("requirements/cpu.lock", "requirements/bootstrap.lock")
        for name in ("scripts/setup.sh", "pyproject.toml", *locks):
            copy = self.project / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy)

    def program(self, name: str, script: str) -> None:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)

    def python(self, name: str = "python3.11") -> None:
        self.program(name, f'exec "{sys.executable}" "$@"')

    def setup(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.project / "scripts/setup.sh"), *arguments],
            env={"PATH": str(self.bin), "HOME": str(self.project), **env},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def refusal(self, *arguments: str, **env: str) -> str:
        """The one line with which set-up refuses."""
        done = self.setup(*arguments, **env)
        assert done.returncode == 2, done.stdout + done.stderr
        (line,) = done.stderr.splitlines()
        return line


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("tool", ["git", "make"])
def test_a_missing_tool_is_named(machine: Machine, tool: str) -> None:
    (machine.bin / tool).unlink()
    assert machine.refusal() == f"error: {tool} is missing; install it with your package manager"
    assert not (machine.project / ".venv").exists()


def test_another_system_is_refused(machine: Machine) -> None:
    machine.program("uname", '[ "$1" = -s ] && echo Darwin || echo x86_64')
    assert machine.refusal() == "error: needs Linux, this is Darwin; use a Linux container or WSL 2"


def test_another_processor_is_refused(machine: Machine) -> None:
    machine.program("uname", '[ "$1" = -s ] && echo Linux || echo riscv64')
    assert machine.refusal() == "error: needs an x86_64 or aarch64 processor, this is riscv64"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("exit 1", "needs GNU libc 2.31 or newer (the packages have no builds for musl, as in Alpine)"),
        ("echo glibc 2.28", "needs GNU libc 2.31 or newer, this is 2.28"),
    ],
)
def test_an_older_c_library_is_refused(machine: Machine, answer: str, message: str) -> None:
    machine.program("getconf", answer)
    assert machine.refusal() == f"error: {message}"


def test_too_little_disk_is_said_before_anything_is_made(machine: Machine) -> None:
    machine.python()
    machine.program("df", "echo head; echo disk 99999999 1 3145728 1% /")
    line = machine.refusal()
    assert line == f"error: needs 10 GiB of free disk in {machine.project}, there are 3"
    assert not (machine.project / ".venv").exists()


def test_no_python_is_said_with_the_way_out(machine: Machine) -> None:
    line = "error: Python 3.11 or 3.12 is missing; install one or name it: PYTHON=/path/to/python3.12"
    assert machine.refusal() == line
    assert not (machine.project / ".venv").exists()


def test_a_shim_that_does_not_answer_and_an_old_python_are_passed_over(machine: Machine) -> None:
    machine.program("python3.12", "echo 'python3.12: command not found' >&2; exit 127")
    machine.program("python3", "exit 1")
    assert "Python 3.11 or 3.12 is missing" in machine.refusal()


def test_a_python_named_by_hand_must_work(machine: Machine) -> None:
    assert (
        machine.refusal(PYTHON="/nowhere/python3")
        == "error: PYTHON=/nowhere/python3 is not a working Python 3.11 or 3.12"
    )


def test_a_python_without_its_venv_module_is_named_with_the_package(machine: Machine) -> None:
    machine.program(
        "python3.11",
        f'[[ "$*" == *ensurepip* ]] && exit 1; exec "{sys.executable}" "$@"',
    )
    done = machine.setup()
    assert done.returncode == 2
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert done.stderr.splitlines() == [
        f"error: {machine.bin}/python3.11 lacks its venv module; on Debian or Ubuntu:"
        f" apt install python{version}-venv"
    ]


def test_an_environment_of_somebody_else_is_not_touched(machine: Machine) -> None:
    machine.python()
    foreign = machine.project / ".venv"
    foreign.mkdir()
    (foreign / "mine").write_text("x")
    line = machine.refusal()
    assert line.startswith(
        f"error: {foreign} exists and was not made by this script; remove it or choose another"
    )
    assert (foreign / "mine").exists()


def test_an_unknown_kind_is_refused(machine: Machine) -> None:
    assert (
        machine.refusal("tpu") == "error: there is no requirements/tpu.lock; the environments are cpu and gpu"
    )


def test_a_finished_environment_is_left_alone_even_without_network_or_tools(machine: Machine) -> None:
    venv = machine.project / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    lock, project = (
        subprocess.run(
            ["sha256sum", machine.project / name], capture_output=True, text=True, check=True
        ).stdout
        for name in ("requirements/cpu.lock", "pyproject.toml")
    )
    (venv / ".environment").write_text(f"cpu {lock[:16]} {venv}\n")
    (venv / ".project").write_text(f"{project[:16]} {machine.project}\n")
    (machine.bin / "git").unlink()
    done = machine.setup()
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # In another folder the same files are no environment: scripts in it hold absolute paths.
    moved = machine.project.rename(machine.project.with_name("moved"))
    machine.project = moved
    assert "git is missing" in machine.refusal()


def test_set_up_can_be_called_from_anywhere(machine: Machine, tmp_path: Path) -> None:
    (machine.bin / "git").unlink()
    done = subprocess.run(
        [str(machine.project / "scripts/setup.sh")],
        cwd=tmp_path,
        env={"PATH": str(machine.bin), "HOME": os.environ.get("HOME", "/")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "git is missing" in done.stderr
