"""A workspace of its own for a run with other params: a git worktree that shares DVC's cache.

What a run changes for itself never touches params.yaml of the main workspace. The worktree has the
files of the last commit, your uncommitted changes on top, and links to the data that git ignores; what
DVC has run before is restored from the cache, not run again. It stays after the run, so that a killed
run resumes and its report can be read; `dvc exp show` lists what was finished. Imports no Prefect.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from rlhf_pipeline import params as params_module
from rlhf_pipeline.errors import EnvironmentProblem, ParamsError
from rlhf_pipeline.params import Params
from rlhf_pipeline.params.load import read_yaml
from rlhf_pipeline.params_edit import change_params, place_of
from rlhf_pipeline.paths import PARAMS, workspace
from rlhf_pipeline.publish import write_text

INPUTS = (
    "data.raw",
    "model.path",
    "reward_model.path",
    "evaluate.judge_path",
    "ppo.distillation.teacher_path",
)
"""Folders of the user that stages read, by the params that name them."""
EXPERIMENTS = Path(".rlhf/experiments")
KEPT_EXPERIMENTS = 3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


def checked_params(preset: str | None, overrides: Mapping[str, Any]) -> Params:
    """The params that a run would use.

    Raises:
        ParamsError: naming an unknown preset or every wrong key, as the command line does.
    """
    return params_module.load(params_file(preset), overrides)


def params_file(preset: str | None) -> Path:
    """params.yaml, or the preset's file."""
    home = workspace()
    if preset is None:
        return home / PARAMS
    file = home / "presets" / f"{preset}.yaml"
    if not file.is_file() or file.parent != home / "presets":
        known = ", ".join(sorted(path.stem for path in (home / "presets").glob("*.yaml")))
        raise ParamsError(f"preset: there is no {preset!r}; presets are {known}")
    return file


def experiment_name(given: str | None, preset: str | None, overrides: Mapping[str, Any]) -> str:
    """The name given, or one that equal params get again, so that a killed run is resumed.

    Raises:
        ParamsError: for a name that no folder and no git reference could have.
    """
    if given is not None:
        if not _NAME.fullmatch(given) or given.endswith((".", ".lock")) or ".." in given:
            raise ParamsError(f"experiment: {given!r} must be letters, digits, '.', '_' and '-' only")
        return given
    digest = hashlib.sha256(json.dumps([preset, dict(overrides)], sort_keys=True, default=str).encode())
    return f"run-{digest.hexdigest()[:8]}"


def own_workspace(name: str, preset: str | None, overrides: Mapping[str, Any]) -> Path:
    """Make, or bring up to date, the workspace of an experiment; returns its folder.

    Raises:
        EnvironmentProblem: when the main workspace is not a git repository with a commit.
    """
    home = workspace()
    folder = home / EXPERIMENTS / name
    if _git(home, "rev-parse", "--verify", "-q", "HEAD", check=False) == "":
        raise EnvironmentProblem(
            f"{home} is not a git repository with a commit; a run with other params needs one (git init,"
            " git add -A, git commit), or change params.yaml itself"
        )
    _git(home, "worktree", "prune")
    lock = folder / "dvc.lock"
    kept_lock = lock.read_bytes() if lock.is_file() else None
    if (folder / ".git").exists():
        _git(folder, "checkout", "-q", "--force", "--detach", _git(home, "rev-parse", "HEAD"))
    else:
        shutil.rmtree(folder, ignore_errors=True)
        _git(home, "worktree", "add", "-q", "--force", "--detach", str(folder), "HEAD")
    _copy_uncommitted(home, folder)
    if kept_lock is not None:
        lock.write_bytes(kept_lock)
    _share_cache(home, folder)
    _write_params(params_file(preset), overrides, folder / PARAMS)
    _link_inputs(home, folder)
    return folder


def forget_old_experiments(keep: str) -> None:
    """Remove the workspaces of all but the newest experiments; their results stay in DVC's cache."""
    home = workspace()
    folders = [path for path in (home / EXPERIMENTS).glob("*") if path.is_dir() and path.name != keep]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[KEPT_EXPERIMENTS - 1 :]:
        _git(home, "worktree", "remove", "--force", "--force", str(folder), check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _copy_uncommitted(home: Path, folder: Path) -> None:
    listed = _git(home, "ls-files", "-z", "--modified", "--others", "--exclude-standard", "--deduplicate")
    for name in filter(None, listed.split("\0")):
        source, target = home / name, folder / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        else:
            target.unlink(missing_ok=True)


def _share_cache(home: Path, folder: Path) -> None:
    config = configparser.ConfigParser()
    config.read([home / ".dvc" / "config", home / ".dvc" / "config.local"])
    place = Path(config.get("cache", "dir", fallback="cache"))
    local = configparser.ConfigParser()
    local.read(home / ".dvc" / "config.local")
    if not local.has_section("cache"):
        local.add_section("cache")
    local.set("cache", "dir", str((home / ".dvc" / place).resolve()))
    text = StringIO()
    local.write(text)
    write_text(folder / ".dvc" / "config.local", text.getvalue())


def _write_params(source: Path, overrides: Mapping[str, Any], target: Path) -> None:
    values = read_yaml(source)
    outside = {}
    for dotted in INPUTS:
        section, key = place_of(values, dotted)
        name = str(overrides.get(dotted, section[key]))
        if ".." in Path(name).parts:
            outside[dotted] = str((workspace() / name).resolve())
    change_params(source, {**overrides, **outside}, target)


def _link_inputs(home: Path, folder: Path) -> None:
    """Give the worktree the input files that git does not carry: hard links where possible."""
    values = read_yaml(folder / PARAMS)
    for dotted in INPUTS:
        section, key = place_of(values, dotted)
        name = section[key]
        source = home / name
        if Path(name).is_absolute() or not source.exists():
            continue
        target_root = folder / name
        if target_root.is_dir():
            shutil.rmtree(target_root)
        for file in [source] if source.is_file() else sorted(source.rglob("*")):
            if file.is_file():
                target = target_root / file.relative_to(source)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                try:
                    os.link(file, target)
                except OSError:
                    shutil.copy2(file, target)


def _git(folder: Path, *arguments: str, check: bool = True) -> str:
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise EnvironmentProblem("git is not installed; a run with other params needs it") from None
    if check and result.returncode != 0:
        raise EnvironmentProblem(f"git {' '.join(arguments)} failed in {folder}: {result.stderr.strip()}")
    return result.stdout if "-z" in arguments else result.stdout.strip()
