"""A workspace with the real dvc.yaml, params and package, and stages that take no time.

The stages write the files that dvc.yaml names and nothing more; a `behave.json` in the workspace makes
one of them fail, sleep or start children. DVC, git, Prefect and the flows are the real ones.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.server import prefect_api
from rlhf_pipeline.params import STAGE_SECTIONS

from .cheap import COMPARISON, STAGE, environment, prepared
from .prefect_api import Prefect

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed git repository; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("pristine") / "workspace"
    folder.mkdir()
    for name in ("params.yaml", "dvc.yaml", ".dvcignore", ".gitignore", "prefect.yaml", "pyproject.toml"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    (folder / ".dvc").mkdir()
    for name in ("config", ".gitignore"):
        shutil.copy(ROOT / ".dvc" / name, folder / ".dvc" / name)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "prepared", "validated")
    for name in ("src", "flows", "scripts", "data", "presets"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    stages = folder / "stages"
    stages.mkdir()
    (stages / "__init__.py").touch()
    shutil.copy(ROOT / "stages/run.sh", stages)
    (folder / "flows/compare_policies.py").write_text(COMPARISON)
    for stage in STAGE_SECTIONS:
        (stages / f"{stage}.py").write_text(STAGE.format(stage=stage))
    git = ["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run([*git[:3], "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "start"], check=True)
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API address of a Prefect server for all tests."""
    home = tmp_path_factory.mktemp("server")
    patch = pytest.MonkeyPatch()
    for name, value in environment(home, home).items():
        patch.setenv(name, value)
    patch.delenv("PREFECT_API_URL", raising=False)
    with prefect_api() as embedded:
        assert embedded is not None
        embedded.wait_until_ready()
        patch.undo()
        yield embedded.url


@pytest.fixture
def workspace(pristine: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the repository; the current directory, without a git identity and with its own home."""
    with prepared(pristine, tmp_path) as folder:
        yield folder


@pytest.fixture
def prefect(server: str, monkeypatch: pytest.MonkeyPatch) -> Prefect:
    """The shared server, named in the environment."""
    monkeypatch.setenv("PREFECT_API_URL", server)
    return Prefect(server)
