"""Which code made a checkpoint: the workspace's git commit, and a digest of this package's sources."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

from ..publish import files_below

PACKAGE = Path(__file__).resolve().parents[1]


def git_commit(folder: Path) -> str | None:
    """The commit that `folder` is at, or None without git or a repository."""
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--verify", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return result.stdout.strip() or None if result.returncode == 0 else None


@cache
def code_digest() -> str:
    """16 hex digits over this package's source files."""
    sources = [path for path in files_below(PACKAGE) if path.suffix == ".py"]
    told = [
        f"{path.relative_to(PACKAGE)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sources
    ]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
