"""A place for packages of which only the metadata exists."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Install a distribution by name and version; no other distribution is found meanwhile."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if "Vllm" not in type(f).__name__])

    def write(name: str, version: str) -> None:
        metadata = tmp_path / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text(f"[console_scripts]\n{name} = {name}.cli:main\n")

    return write
