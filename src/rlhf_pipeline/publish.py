"""Crash-safe outputs: a stage writes into a temporary folder that appears under its name only when complete.

Folders carry `manifest.json` with the sha256 of every file, so that a reader can prove what it
loads. Nothing time-dependent goes into a manifest: equal work gives equal bytes, and DVC then
skips what follows. Checkpoint retention and promotion are in checkpoints/.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from .errors import CheckpointError, EnvironmentProblem

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1


@contextmanager
def publishing(target: Path, facts: Mapping[str, Any]) -> Iterator[Path]:
    """Yield an empty folder beside `target`; on success give it a manifest and rename it to `target`.

    `facts` (stage, params digest, seed, ...) are stored in the manifest. When the block raises, the
    temporary folder is removed and an older `target` stays as it was. What a killed run left behind
    is removed, or put back where it was killed between the two renames.

    Raises:
        EnvironmentProblem: the disk is full, or the folder cannot be written to.
    """
    work, old = _beside(target, "writing"), _beside(target, "old")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(target)
        work.mkdir()
    except OSError as error:
        raise EnvironmentProblem(f"cannot write to {target.parent}: {error.strerror}") from error
    try:
        yield work
        write_manifest(work, facts)
        sync_tree(work)
        if target.exists():
            os.replace(target, old)
        os.replace(work, target)
        sync_folder(target.parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise EnvironmentProblem(
            f"the disk is full: {target} was not published and what it was before is untouched;"
            " free some space and run again"
        ) from error
    finally:
        if old.exists() and not target.exists():
            os.replace(old, target)
        shutil.rmtree(work, ignore_errors=True)


def copy_model(source: Path, out: Path) -> None:
    """Copy a Hugging Face folder that verl saved, without the name of the attention it trained with.

    verl writes that name into config.json, and transformers refuses to load a folder that names an
    attention of ours. Any reader of the folder chooses its own.
    """
    shutil.copytree(source, out, dirs_exist_ok=True)
    config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    if config.pop("attn_implementation", None) is not None:
        write_json(out / "config.json", config)


def _beside(target: Path, role: str, process: int | str | None = None) -> Path:
    """The name of a temporary folder of this process next to `target`."""
    return target.with_name(f".{target.name}.{role}-{os.getpid() if process is None else process}")


def _clear_leftovers(target: Path) -> None:
    """Undo what a killed process left beside `target`; folders of living processes are not touched."""
    for role in ("old", "writing"):
        for path in target.parent.glob(_beside(target, role, "*").name):
            process = int(path.name.rpartition("-")[2])
            if process != os.getpid() and psutil.pid_exists(process):
                continue
            if role == "old" and not target.exists():
                os.replace(path, target)
            else:
                shutil.rmtree(path)


def write_manifest(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write `folder/manifest.json` over every file below it."""
    files = {
        str(path.relative_to(folder)): {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        for path in files_below(folder)
    }
    write_json(folder / MANIFEST, {"manifest_version": MANIFEST_VERSION, **facts, "files": files})


def without_files(folder: Path) -> bool:
    """Whether a stage published the folder without a model in it: a manifest and nothing else."""
    manifest = folder / MANIFEST
    return manifest.is_file() and not json.loads(manifest.read_text(encoding="utf-8"))["files"]


def verify(folder: Path) -> dict[str, Any]:
    """The manifest of a folder whose every file matches it.

    Raises:
        CheckpointError: naming the first file that is missing, changed or not listed.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointError(
            f"{folder} holds no {MANIFEST}: it is incomplete or was not made by this pipeline"
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{folder / MANIFEST} is damaged: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise CheckpointError(f"{folder / MANIFEST} is damaged: it lists no files")
    if manifest.get("manifest_version") != MANIFEST_VERSION:
        raise CheckpointError(
            f"{folder / MANIFEST} has format {manifest.get('manifest_version')!r},"
            f" expected {MANIFEST_VERSION}"
        )
    if not all(
        isinstance(entry, dict) and entry.keys() >= {"bytes", "sha256"}
        for entry in manifest["files"].values()
    ):
        raise CheckpointError(f"{folder / MANIFEST} is damaged: an entry lacks its size or sha256")
    found = {str(path.relative_to(folder)): path for path in files_below(folder)}
    for name, entry in manifest["files"].items():
        if name not in found:
            raise CheckpointError(f"{folder}: {name} is listed in {MANIFEST} but missing")
        if found[name].stat().st_size != entry["bytes"] or sha256_of(found[name]) != entry["sha256"]:
            raise CheckpointError(f"{folder}: {name} does not match its sha256 in {MANIFEST}")
    for name in found.keys() - manifest["files"].keys():
        raise CheckpointError(f"{folder}: {name} is not listed in {MANIFEST}")
    return manifest


def write_json(path: Path, value: Any) -> None:
    """Write JSON by rename, so that a reader sees the old file or the whole new one."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text by rename and fsync."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work = path.with_name(f".{path.name}.writing-{os.getpid()}")
    try:
        with work.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(work, path)
        sync_folder(path.parent)
    finally:
        work.unlink(missing_ok=True)


def files_below(folder: Path) -> list[Path]:
    """Every regular file below a folder but its own manifest, sorted."""
    own = folder / MANIFEST
    return sorted(path for path in folder.rglob("*") if path.is_file() and path != own)


def sha256_of(path: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_tree(folder: Path) -> None:
    """fsync every file and folder below `folder`."""
    for path in [*files_below(folder), folder / MANIFEST]:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        sync_folder(path)


def sync_folder(folder: Path) -> None:
    """fsync a folder, which makes a rename in it last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
