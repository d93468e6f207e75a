"""When a validation score has dropped so far below the best that training should go back.

Pure: scores in, a decision out. The rule is relative to the best score; by default a paired bootstrap on
the same prompts must confirm the drop, because a validation of a few hundred prompts is noisy. The 5%
chance of error is for the run: it is shared among the validations (Bonferroni), since each is another
chance to be fooled and the best of many is a lucky one. Carrying the decision out is the trainer's job;
the release step uses the same rule between two policies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..params.training import Rollback

CONFIDENCE = 0.95
MIN_RESAMPLES = 4000
RESAMPLES_BEYOND = 20
"""At least so many resamples are expected beyond the bound."""
DRAWS_AT_ONCE = 2_000_000
ROUNDING = 1e-9
"""A drop of exactly max_drop is no drop over max_drop, whatever the last bit of the scores says."""
REFERENCE_SCORE = 0.6
"""The score for which preflight states what a validation can see, before any was measured."""


class Validation(NamedTuple):
    """A validation's score (bounded, at least 0, higher is better) and its scores by prompt id."""

    step: int
    score: float
    by_prompt: Mapping[str, float]


@dataclass(frozen=True)
class Decision:
    """What to do after a validation."""

    action: Literal["continue", "rollback", "stop"]
    reason: str
    to_step: int | None
    """The best step, for rollback and stop."""
    drop: float | None
    """Relative drop below the best score; None without a best score above zero."""
    upper_bound: float | None
    """Upper bound of mean(new - (1 - max_drop) best); None when the bootstrap was not asked."""
    good: bool
    """False for a confirmed drop or a fault: such a step never counts as best or last good."""


def decide(
    new: Validation,
    best: Validation | None,
    rule: Rollback,
    rollbacks_so_far: int,
    *,
    fault: str | None = None,
    n_validations: int = 1,
    seed: int = 0,
) -> Decision:
    """Apply the rollback rule to a new validation.

    Args:
        best: the best validation so far, before this one.
        fault: what makes the step bad whatever its score (NaN, exploded KL, dead rollouts), for the reason.
        n_validations: validations planned for the whole run, among which the 5% is shared.
        seed: of the bootstrap; equal seeds give equal decisions.

    Raises:
        ValueError: the two validations were not made on the same prompts.
    """
    if fault is None and not math.isfinite(new.score):
        fault = f"the validation score is {new.score}"
    if fault is not None:
        return _go_back(
            f"step {new.step}: {fault}", best, rule, rollbacks_so_far, 0.0 if best else None, None, True
        )
    if best is None or best.score <= 0:
        return Decision("continue", f"step {new.step}: score {new.score:.4g}", None, None, None, True)
    drop = 1.0 - new.score / best.score
    compared = f"{new.score:.4g} against the best {best.score:.4g} (step {best.step}), {-drop:+.1%}"
    said = f"step {new.step}: score {compared}"
    if drop <= rule.max_drop + ROUNDING:
        return Decision("continue", said, None, drop, None, True)
    bound = None
    if rule.confirm == "paired_bootstrap":
        bound = paired_upper_bound(
            new.by_prompt, best.by_prompt, rule.max_drop, n_validations=n_validations, seed=seed
        )
        said += f"; 95% upper bound of new - {1 - rule.max_drop:.2g} best: {bound:+.4f}"
        if bound >= 0:
            return Decision("continue", f"{said}, not confirmed", None, drop, bound, True)
    return _go_back(said, best, rule, rollbacks_so_far, drop, bound, False)


def _go_back(
    reason: str,
    best: Validation | None,
    rule: Rollback,
    rollbacks_so_far: int,
    drop: float | None,
    bound: float | None,
    is_fault: bool,
) -> Decision:
    to_step = best.step if best else None
    if not rule.enabled:
        action: Literal["continue", "rollback", "stop"] = "stop" if is_fault else "continue"
        reason += "; rollback.enabled is false"
    elif best is None:
        action, reason = "stop", f"{reason}; there is no earlier validated step to go back to"
    elif rollbacks_so_far >= rule.max_rollbacks:
        action, reason = (
            "stop",
            f"{reason}; {rollbacks_so_far} rollbacks done, as many as rollback.max_rollbacks",
        )
    else:
        action = "rollback"
    return Decision(action, reason, to_step, drop, bound, False)


def paired_upper_bound(
    new: Mapping[str, float],
    best: Mapping[str, float],
    max_drop: float,
    *,
    n_validations: int = 1,
    seed: int = 0,
) -> float:
    """One-sided 95% upper bound of mean(new - (1 - max_drop) best) over prompts, by paired bootstrap.

    Below zero, the new scores are more than `max_drop` under the best, noise allowed for. With
    `n_validations` comparisons planned the level of each is 1 - 0.05 / n_validations. A prompt whose score
    is not finite counts as 0. Percentile bootstrap over prompts (Efron and Tibshirani 1993, ch. 13).

    Raises:
        ValueError: the prompts differ, or there are none.
    """
    if not new or new.keys() != best.keys():
        raise ValueError(
            f"a paired comparison needs the same prompts: {len(new)} new, {len(best)} before,"
            f" {len(new.keys() & best.keys())} in both"
        )
    prompts = sorted(new)
    pairs = np.array([[new[prompt], best[prompt]] for prompt in prompts], dtype=np.float64)
    pairs = np.nan_to_num(pairs, nan=0.0, posinf=0.0, neginf=0.0)
    differences = pairs[:, 0] - (1.0 - max_drop) * pairs[:, 1]
    error = _error_share(n_validations)
    n_resamples = max(MIN_RESAMPLES, math.ceil(RESAMPLES_BEYOND / error))
    return float(np.quantile(_resampled_means(differences, n_resamples, seed), 1.0 - error))


def smallest_visible_drop(
    n_prompts: int,
    max_drop: float,
    *,
    n_validations: int = 1,
    score: float = REFERENCE_SCORE,
    correlation: float = 0.0,
    power: float = 0.8,
) -> float:
    """The true relative drop that the confirmed rule finds with probability `power` in one validation.

    For scores of 0 or 1 (bounded scores in between vary less, so it errs high), by the normal approximation:
    (drop - max_drop) score = (z_level + z_power) sd / sqrt(n), sd that of new - (1 - max_drop) best, with the
    spread of both taken at `score`. `correlation` is between the two scores of one prompt. Above 1 the rule
    cannot see even a fall to zero with that power.
    """
    keep = 1.0 - max_drop
    variance = score * (1.0 - score) * (1.0 + keep**2 - 2.0 * correlation * keep)
    z = NormalDist().inv_cdf(1.0 - _error_share(n_validations)) + NormalDist().inv_cdf(power)
    return max_drop + z * math.sqrt(variance / n_prompts) / score


def preflight_statement(rule: Rollback, n_prompts: int, n_validations: int = 1) -> str:
    """One sentence on what this validation size can and cannot see, before the run starts."""
    if not rule.enabled:
        return "rollback is off (rollback.enabled: false)"
    if rule.confirm == "none":
        spread = math.sqrt(2 * REFERENCE_SCORE * (1 - REFERENCE_SCORE) / n_prompts)
        chance = NormalDist().cdf(-rule.max_drop * REFERENCE_SCORE / spread)
        return (
            f"rollback acts on any drop over {rule.max_drop:.0%} (rollback.confirm: none); with {n_prompts}"
            f" validation prompts noise alone makes one in {chance:.0%} of validations"
        )
    seen = smallest_visible_drop(n_prompts, rule.max_drop, n_validations=n_validations)
    size = f"a true drop of {seen:.0%}" if seen < 1 else "not even a fall to zero"
    return (
        f"rollback acts on confirmed drops over {rule.max_drop:.0%}; with {n_prompts} validation prompts and"
        f" {n_validations} validations (0/1 scores around {REFERENCE_SCORE}) {size} is found in 4 of 5 cases"
    )


def _resampled_means(values: NDArray[np.float64], n_resamples: int, seed: int) -> NDArray[np.float64]:
    """Means of resamples with replacement, shape [n_resamples], drawn in blocks that fit in memory."""
    random = np.random.default_rng(seed)
    rows = max(1, DRAWS_AT_ONCE // values.size)
    blocks = (min(rows, n_resamples - start) for start in range(0, n_resamples, rows))
    drawn = [values[random.integers(values.size, size=(block, values.size))].mean(axis=1) for block in blocks]
    return np.concatenate(drawn)


def _error_share(n_validations: int) -> float:
    return (1.0 - CONFIDENCE) / max(1, n_validations)
