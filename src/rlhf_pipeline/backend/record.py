"""What became of each shim in this process.

verl swallows an exception that a plugin raises while it is loaded, so a shim that fails would be
missing without a word. Every shim therefore reports here, and `preflight.check` reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

logger = logging.getLogger("rlhf_pipeline.backend")

State = Literal["applied", "waiting", "failed"]


@dataclass(frozen=True)
class Shim:
    """A shim that is `waiting` is applied as soon as `target`, a module of verl, is imported."""

    name: str
    target: str
    state: State
    detail: str = ""


_shims: dict[str, Shim] = {}


def status() -> tuple[Shim, ...]:
    """Every shim that was asked for in this process, in the order of the asking."""
    return tuple(_shims.values())


def note(shim: Shim) -> None:
    """Enter the state of a shim, in place of what was known of it."""
    _shims[shim.name] = shim


def apply(name: str, target: str, change: Callable[[], None]) -> None:
    """Run `change` and note the outcome; its exception is logged, noted and raised again."""
    try:
        change()
    except Exception as error:
        note(Shim(name, target, "failed", f"{type(error).__name__}: {error}"))
        logger.error("backend: %s could not be applied to %s: %s", name, target, error)
        raise
    note(Shim(name, target, "applied"))
