"""Every target of the Makefile is explained and runs something that is there; CI runs `make test`."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE)
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
}


def dry_run(target: str, *variables: str) -> str:
    """The commands of a target, not run."""
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", target, *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_help_lists_every_target_but_set_up_and_itself() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in done.stdout.splitlines()} == set(TARGETS) - {"setup", "help"}


def test_no_target_is_taken_for_a_file() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, flags=re.MULTILINE)
    assert phony.split() == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_target_runs_is_there(target: str) -> None:
    commands = dry_run(target)
    for module in re.findall(r"python -m (\S+)", commands):
        first = module.split(".")[0]
        if (ROOT / first).is_dir():
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
        else:
            assert importlib.util.find_spec(first), module
    for script in re.findall(r"scripts/\w+\.sh", commands):
        assert (ROOT / script).stat().st_mode & 0o111, script
    for folder in re.findall(r" (tests/\w+)", commands):
        assert (ROOT / folder).is_dir(), folder


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"help", "clean", "setup", "gpu-env"}))
def test_a_target_sets_up_what_it_needs(target: str) -> None:
    assert dry_run(target).splitlines()[0] == "scripts/setup.sh"


def test_children_neither_phone_home_nor_ask_a_hub(tmp_path: Path) -> None:
    shown = tmp_path / "Makefile"
    shown.write_text(f"include {ROOT}/Makefile\nshow:\n\t@env\n")
    done = subprocess.run(
        ["make", "-f", str(shown), "--no-print-directory", "show"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: seen.get(name) for name in OFFLINE} == OFFLINE


def test_the_prompt_of_a_chat_reaches_the_script_as_it_is(tmp_path: Path) -> None:
    assert dry_run("chat").splitlines()[-1] == '.venv/bin/python -m scripts.chat "$PROMPT"'


def test_the_fast_tests_come_first() -> None:
    last = dry_run("test").splitlines()[-1]
    folders = re.findall(r"tests/(\w+)", last)
    assert folders == ["unit", "contract", "flows", "faults", "end_to_end"]
    assert "not long and not gpu" in last


def test_ci_runs_make_test_and_nothing_else() -> None:
    path = ROOT / ".ci/run"
    assert path.stat().st_mode & 0o111
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines[-1] == "make --no-print-directory test"
    assert all(line.startswith(("set ", "cd ")) for line in lines[:-1])
