"""What is wrong with a run, one pure function per guard: windows in, a finding or nothing out.

Each rule compares the newest window with the run's own course before it, because bare thresholds fire
on most steps of healthy runs; the threshold in params says from where on a change matters. Beyond a
rule's hard limit it fires whatever the course was. Formulas and sources: docs/reliability.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..params.training import Guard, Guards
from .history import Floats, History, Windows

MIN_BASELINE = 5
"""Values needed before a window counts as the run's course."""
KL_GROWTH = 1.5
ENTROPY_SHARE = 0.6
HARD_LIMIT = 10.0
"""KL above, or entropy below, the threshold by this factor needs no comparison."""
NOISE_FACTOR = 3.0
"""Standard errors that a fall in gold must exceed."""
MIN_RESPONSE_TOKENS = 2.0
ROUNDING = 1e-9
WATCHED_FOR_NAN = ("actor/", "critic/", "response_length/", "rollout/", "val/", "training/")


class Finding(NamedTuple):
    """What a rule saw."""

    value: float
    """The newest window's figure."""
    reference: float
    """What it was compared with."""
    text: str


Rule = Callable[[History, int, Guard, int], Finding | None]


def kl(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """Mean KL above the threshold and 1.5 times what it was, or above 10 times the threshold."""
    recent, baseline = history.windows("kl", step, guard.window_steps, baseline_steps)
    if not recent.size:
        return None
    now = float(recent.mean())
    if now > HARD_LIMIT * guard.threshold:
        return Finding(now, HARD_LIMIT * guard.threshold, "KL exploded")
    if baseline.size < MIN_BASELINE or now <= guard.threshold:
        return None
    before = float(baseline.mean())
    return Finding(now, before, "KL is running away") if now > KL_GROWTH * before else None


def entropy(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """Mean entropy below the threshold and 0.6 times what it was, or below a tenth of the threshold."""
    recent, baseline = history.windows("entropy", step, guard.window_steps, baseline_steps)
    if not recent.size:
        return None
    now = float(recent.mean())
    if now < guard.threshold / HARD_LIMIT:
        return Finding(now, guard.threshold / HARD_LIMIT, "entropy is gone")
    if baseline.size < MIN_BASELINE or now >= guard.threshold:
        return None
    before = float(baseline.mean())
    return Finding(now, before, "entropy is collapsing") if now < ENTROPY_SHARE * before else None


def reward_swing(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """Mean score below its recent peak by more than the threshold's share of the scores' spread at the start.

    The spread is the mean of max - min within a batch over the first steps, so a mean near zero is no
    trouble. Rises are what training is for; reward_hacking watches those.
    """
    recent, baseline = history.windows("reward", step, guard.window_steps, baseline_steps)
    highest, lowest = history.early("reward_max", MIN_BASELINE), history.early("reward_min", MIN_BASELINE)
    if not recent.size or baseline.size < MIN_BASELINE or not highest.size or not lowest.size:
        return None
    spread = float(highest.mean() - lowest.mean())
    now, peak = float(recent.mean()), _peak(baseline, guard.window_steps)
    return (
        Finding(now, peak, "the mean score fell back") if peak - now > guard.threshold * spread > 0 else None
    )


def reward_hacking(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """The score rises while gold (or the held-out judge) falls below its recent peak by a share of it.

    Gold's fall must exceed 3 standard errors of its own step-to-step noise, the rise one of the score's.
    """
    reward = history.windows("reward", step, guard.window_steps, baseline_steps)
    gold = history.windows("gold", step, guard.window_steps, baseline_steps)
    if (
        not gold.recent.size
        or not gold.baseline.size
        or not reward.recent.size
        or reward.baseline.size < MIN_BASELINE
    ):
        return None
    rise = float(reward.recent.mean() - reward.baseline.mean())
    now, peak = float(gold.recent.mean()), _peak(gold.baseline, guard.window_steps)
    fell = now < (1.0 - guard.threshold) * peak and peak - now > NOISE_FACTOR * _standard_error(gold)
    if rise <= max(_standard_error(reward), ROUNDING) or not fell:
        return None
    return Finding(now, peak, f"the score rose by {rise:.3g} while {history.source('gold')} fell")


def explained_variance(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """The critic's explained variance fell below its recent peak by more than the threshold."""
    recent, baseline = history.windows("explained_variance", step, guard.window_steps, baseline_steps)
    if not recent.size or baseline.size < MIN_BASELINE:
        return None
    now, peak = float(recent.mean()), _peak(baseline, guard.window_steps)
    return (
        Finding(now, peak, "the critic lost track of the returns") if peak - now > guard.threshold else None
    )


def grad_norm(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """The median gradient norm is more than `threshold` times the median before; lone spikes do not count."""
    recent, baseline = history.windows("grad_norm", step, guard.window_steps, baseline_steps)
    if not recent.size or baseline.size < MIN_BASELINE:
        return None
    now, before = float(np.median(recent)), float(np.median(baseline))
    return Finding(now, before, "gradients grew") if now > guard.threshold * before else None


def response_length(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """Mean response tokens under the threshold's share of what they were, or over its inverse."""
    recent, baseline = history.windows("response_tokens", step, guard.window_steps, baseline_steps)
    if not recent.size or baseline.size < MIN_BASELINE:
        return None
    now, before = float(recent.mean()), float(baseline.mean())
    if now < guard.threshold * before:
        return Finding(now, before, "responses became short")
    return Finding(now, before, "responses became long") if now * guard.threshold > before else None


def repetition(history: History, step: int, guard: Guard, baseline_steps: int) -> Finding | None:
    """Repetition above the threshold and at least halfway from what it was to 1."""
    recent, baseline = history.windows("repetition", step, guard.window_steps, baseline_steps)
    if not recent.size or baseline.size < MIN_BASELINE:
        return None
    now, before = float(recent.mean()), float(baseline.mean())
    jumped = now > guard.threshold and now > (1.0 + before) / 2
    return Finding(now, before, "responses repeat themselves") if jumped else None


RULES: dict[str, tuple[str, Rule]] = {
    "kl": ("kl", kl),
    "entropy": ("entropy", entropy),
    "reward_swing": ("reward", reward_swing),
    "reward_hacking": ("gold", reward_hacking),
    "explained_variance": ("explained_variance", explained_variance),
    "grad_norm": ("grad_norm", grad_norm),
    "response_length": ("response_tokens", response_length),
    "repetition": ("repetition", repetition),
}
"""Guard -> the series it is about, and its rule."""


def fault_in(history: History, step: int, metrics: Mapping[str, Any], guards: Guards) -> str | None:
    """What makes this step as bad as a drop of the score: NaN or infinity, exploded KL, dead rollouts.

    Each belongs to a guard and is off with it: non_finite (other than stop only warns), kl, response_length.
    """
    if guards.non_finite == "stop" and (found := non_finite(metrics)) is not None:
        return found
    if guards.kl.action != "off":
        recent, _ = history.windows("kl", step, guards.kl.window_steps, 1)
        if recent.size and recent.mean() > HARD_LIMIT * guards.kl.threshold:
            return f"KL exploded: {recent.mean():.3g} nats per token over the last {recent.size} steps"
    if guards.response_length.action != "off":
        recent, _ = history.windows("response_tokens", step, 1, 1)
        if recent.size and recent[-1] < MIN_RESPONSE_TOKENS:
            return f"rollouts are dead: {recent[-1]:.3g} tokens per response"
    return None


def non_finite(metrics: Mapping[str, Any]) -> str | None:
    """The first watched metric that is NaN or infinite, in words."""
    for name, value in metrics.items():
        if name.startswith(WATCHED_FOR_NAN) and isinstance(value, (int, float)) and not math.isfinite(value):
            return f"{name} is {value}"
    return None


def _peak(values: Floats, window: int) -> float:
    """The highest mean of consecutive stretches of `window` values, counted from the newest backwards."""
    ends = range(values.size, 0, -window)
    return max(
        float(values[max(0, end - window) : end].mean()) for end in ends if end >= min(window, values.size)
    )


def _standard_error(windows: Windows) -> float:
    """Of the difference between the two windows' means, from the baseline's step-to-step differences.

    1.4826 median |d| / sqrt(2) is a spread that a trend or a single jump hardly moves; 0 below 6 values.
    """
    if windows.baseline.size <= MIN_BASELINE:
        return 0.0
    spread = 1.4826 * float(np.median(np.abs(np.diff(windows.baseline)))) / math.sqrt(2)
    return spread * math.sqrt(1 / windows.recent.size + 1 / windows.baseline.size)
