"""What a real run shows of itself to the network, and what it writes down of its environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import LOOPBACK, SECRETS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_everything_listens_on_the_loopback_interface_alone(run: Any) -> None:
    """Prefect's server, Ray's daemons and workers, vLLM's servers."""
    titles = {title for title, _ in run.listeners}
    for part in ("prefect", "gcs_server", "raylet", "vLLMHttpServer"):
        assert any(part in title for title in titles), f"no listening {part} was seen: {sorted(titles)}"
    assert [entry for entry in sorted(run.listeners) if entry[1] not in LOOPBACK] == []


def files_with_secrets(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(folder)}: {name}"
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
        for name, secret in SECRETS.items()
        if secret.encode() in path.read_bytes()
    ]


def test_no_secret_is_in_any_file_of_the_workspace(run: Any) -> None:
    """Logs, params snapshots, job files, reports, tracking, DVC's and Prefect's records."""
    (run.folder / "canary").write_text(SECRETS["HF_TOKEN"])
    assert files_with_secrets(run.folder) == ["canary: HF_TOKEN"], "the canary alone"
    (run.folder / "canary").unlink()
    assert not any(secret in run.output for secret in SECRETS.values())
