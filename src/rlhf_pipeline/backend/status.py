"""What the backend did in this process: one line for each shim, and the check before a launch.

verl swallows an exception that a plugin raises while it is loaded, so a shim that fails would be
missing without a word. Every shim is therefore announced here before it is tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rlhf_pipeline.errors import EnvironmentProblem

logger = logging.getLogger("rlhf_pipeline.backend")

State = Literal["applied", "waiting", "failed"]


@dataclass(frozen=True)
class ShimStatus:
    """`waiting` means: applied as soon as `target`, a module of verl, is imported."""

    name: str
    target: str
    state: State
    detail: str = ""


_shims: dict[str, ShimStatus] = {}


def status() -> tuple[ShimStatus, ...]:
    """Every shim that was asked for in this process, in the order of the asking."""
    return tuple(_shims.values())


def waiting(name: str, target: str) -> None:
    """Note that shim `name` will be applied when module `target` is imported."""
    _shims[name] = ShimStatus(name, target, "waiting")


def apply(name: str, target: str, shim: Callable[[], None]) -> None:
    """Run `shim` and note its outcome; its exception is logged, noted and raised again."""
    try:
        shim()
    except Exception as error:
        _shims[name] = ShimStatus(name, target, "failed", f"{type(error).__name__}: {error}")
        logger.error("backend shim %r could not be applied to %s: %s", name, target, error)
        raise
    _shims[name] = ShimStatus(name, target, "applied")


def require_applied() -> None:
    """Raise `EnvironmentProblem` when any shim failed or still waits."""
    if missing := [shim for shim in status() if shim.state != "applied"]:
        raise EnvironmentProblem(
            "the verl backend is not in place: "
            + "; ".join(f"{shim.name} ({shim.target}) {shim.state} {shim.detail}".strip() for shim in missing)
        )
