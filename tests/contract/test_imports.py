"""Imports go one way, flows -> (dvc) -> stages -> rlhf_pipeline, and every file says what it is for."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAY_IMPORT = {
    "src": {"rlhf_pipeline"},
    "stages": {"rlhf_pipeline", "stages"},
    "flows": {"rlhf_pipeline", "flows"},
    "scripts": {"rlhf_pipeline", "scripts"},
}
OURS = {"rlhf_pipeline", "stages", "flows", "scripts", "benchmarks", "tests"}
# What the flow may use of the package: nothing that trains, samples or reads data.
FOR_FLOWS = {
    "checkpoints",
    "errors",
    "hardware",
    "orphans",
    "params",
    "params_edit",
    "paths",
    "process",
    "progress",
    "publish",
    "report",
    "supervisor",
    "tracking",
}
# Run by the flow as processes of their own, because they load models.
OWN_PROCESS = {"compare_policies.py"}
HEAVY = {"torch", "transformers", "verl", "vllm", "ray", "trl", "datasets", "great_expectations"}
FILES = {name: sorted((ROOT / name).rglob("*.py")) for name in MAY_IMPORT}


def imported(path: Path, top_level_only: bool = False) -> Iterator[str]:
    """The absolute dotted names that a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                base = node.module or ""
            else:
                root = ROOT / "src" if path.is_relative_to(ROOT / "src") else ROOT
                package = path.relative_to(root).with_suffix("").parts[: -node.level]
                base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_the_reader_resolves_relative_imports() -> None:
    assert "rlhf_pipeline.errors.ParamsError" in set(imported(ROOT / "src/rlhf_pipeline/params/load.py"))


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_imports_go_one_way(folder: str) -> None:
    assert FILES[folder]
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES[folder]
        for name in imported(path)
        if name.split(".")[0] in OURS - MAY_IMPORT[folder]
    }
    assert not wrong


def test_flows_use_only_the_light_parts_of_the_package() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES["flows"]
        if path.name not in OWN_PROCESS
        for name in imported(path)
        if name.startswith("rlhf_pipeline.") and name.split(".")[1] not in FOR_FLOWS
    }
    assert not wrong


@pytest.mark.parametrize("folder", ["flows", "stages", "scripts"])
def test_what_starts_a_process_imports_nothing_heavy_at_the_top(folder: str) -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES[folder]
        for name in imported(path, top_level_only=True)
        if name.split(".")[0] in HEAVY
    }
    assert not wrong


def test_starting_the_flow_loads_nothing_heavy() -> None:
    code = f"import sys, flows.train; print(*sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def tracked(*patterns: str) -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file()]


def test_every_file_opens_with_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in tracked("*.py")
        if path.name != "__init__.py" and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_file_grows_beyond_400_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in tracked("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 400} == {}
