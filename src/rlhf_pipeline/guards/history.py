"""The course of a run: each watched series as (step, value) pairs, and the two windows that rules compare.

Series have names of their own; SOURCES says which logged metric feeds each. Values that are not finite
are left out here, they are a fault of their own (rules.fault_in).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SOURCES: dict[str, tuple[str, ...]] = {
    "kl": ("actor/reward_kl_penalty", "actor/kl_loss"),
    "entropy": ("actor/entropy",),
    "reward": ("critic/score/mean",),
    "reward_max": ("critic/score/max",),
    "reward_min": ("critic/score/min",),
    "gold": ("rollout/gold/mean", "val/score"),
    "explained_variance": ("critic/vf_explained_var",),
    "grad_norm": ("actor/grad_norm",),
    "response_tokens": ("response_length/mean",),
    "repetition": ("rollout/repetition",),
}
"""Series -> verl's metric names (rollout/* and val/score are ours), the best that is logged being taken."""
KEPT = 600
"""Values kept of each series; the first EARLY ones are kept for ever, they are the start of the course."""
EARLY = 20


class Windows(NamedTuple):
    """The newest values of a series and the ones before them."""

    recent: Floats
    """Values of the last `window_steps` steps."""
    baseline: Floats
    """Up to `baseline_steps` values before those."""


class History:
    """Everything the rules may look at."""

    def __init__(self) -> None:
        self._series: dict[str, list[tuple[int, float]]] = {}
        self._source: dict[str, str] = {}

    def add(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Take in one step's logged metrics."""
        for series, sources in SOURCES.items():
            source = next((name for name in sources if name in metrics), None)
            value = metrics.get(source) if source else None
            if source is None or not isinstance(value, (int, float)) or not math.isfinite(value):
                continue
            known = self._source.setdefault(series, source)
            if sources.index(source) > sources.index(known):
                continue
            if source != known:  # a better measurement than the one before training: another course
                self._source[series] = source
                self._series.pop(series)
            course = self._series.setdefault(series, [])
            course.append((step, float(value)))
            if len(course) > KEPT:
                del course[EARLY]

    def windows(self, series: str, step: int, window_steps: int, baseline_steps: int) -> Windows:
        """The newest values of a series as of `step`, and those before; empty where there are none."""
        course = self._series.get(series, [])
        end = bisect_right(course, step, key=_step)
        middle = bisect_right(course, step - window_steps, key=_step)
        start = max(0, middle - baseline_steps)
        return Windows(_values(course[middle:end]), _values(course[start:middle]))

    def early(self, series: str, count: int) -> Floats:
        """The first `count` values of a series."""
        return _values(self._series.get(series, [])[: min(count, EARLY)])

    def source(self, series: str) -> str:
        """The logged metric that feeds a series."""
        return self._source.get(series, SOURCES[series][0])

    def truncate(self, step: int) -> None:
        """Forget what came after `step`, as a rollback to it does."""
        for course in self._series.values():
            course[:] = [pair for pair in course if pair[0] <= step]

    def state_dict(self) -> dict[str, Any]:
        """JSON values from which `load_state_dict` goes on."""
        return {"series": {name: [list(pair) for pair in course] for name, course in self._series.items()},
                "source": dict(self._source)}  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self._series = {
            name: [(int(at), float(value)) for at, value in course]
            for name, course in state["series"].items()
        }
        self._source = dict(state["source"])


def _step(pair: tuple[int, float]) -> int:
    return pair[0]


def _values(course: Sequence[tuple[int, float]]) -> Floats:
    return np.array([value for _, value in course], dtype=np.float64)
