"""Notices files that change while a stage reads them.

DVC hashes what a stage depends on after the stage has run: a file edited meanwhile is recorded as if the
stage had seen it. A run in a workspace of its own cannot be disturbed like that. No Prefect.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rlhf_pipeline.params.load import read_yaml

State = dict[str, tuple[int, int]]


def state_of_inputs(folder: Path, stage: str) -> State:
    """Time of change and size of params.yaml and of every source file the stage depends on."""
    deps = read_yaml(folder / "dvc.yaml")["stages"][stage]["deps"]
    code = [dep for dep in deps if dep.startswith(("src/", "stages/"))]
    return {
        str(file.relative_to(folder)): (status.st_mtime_ns, status.st_size)
        for file in _files(folder, ["params.yaml", *code])
        if (status := file.stat())
    }


def changed(before: State, after: State) -> list[str]:
    """Names that came, went or changed."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _files(folder: Path, names: list[str]) -> Iterator[Path]:
    for name in names:
        place = folder / name
        if place.is_dir():
            yield from (path for path in place.rglob("*") if path.is_file() and path.suffix != ".pyc")
        elif place.is_file():
            yield place
