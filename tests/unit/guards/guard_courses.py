"""Courses of PPO runs for the guard tests: published healthy ones, a synthetic healthy one, faults laid over.

A course is one metrics dict per step, under the names that verl logs. Sizes of the faults are stated
where they are laid over.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np

Course = list[dict[str, float]]
PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "data" / "verl-gsm8k-runs"
GOLD = "rollout/gold/mean"
_COLUMNS = {
    "critic/kl": "actor/reward_kl_penalty",
    "actor/entropy_loss": "actor/entropy",
    "actor/grad_norm": "actor/grad_norm",
    "critic/score/mean": "critic/score/mean",
    "response_length/mean": "response_length/mean",
    "val/test_score/openai/gsm8k": "val/score",
}


def published(name: str) -> Course:
    """A published GSM8K run; its scores are 0 or 1, so each batch spans 1."""
    with (PUBLISHED / f"{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        {ours: float(row[theirs]) for theirs, ours in _COLUMNS.items() if row[theirs]}
        | {"critic/score/max": 1.0, "critic/score/min": 0.0}
        for row in rows
    ]


def synthetic(n_steps: int = 300, seed: int = 0) -> Course:
    """A healthy run of the same shape and noise as the published ones, with the series those lack."""
    draw = np.random.default_rng(seed)

    def noise(size: float) -> float:
        return float(size * draw.standard_normal())

    course = []
    for step in range(n_steps):
        learned = 1.0 / (1.0 + math.exp(-(step - 30) / 6))
        spike = 30.0 if draw.uniform() < 0.02 else 1.0
        course.append(
            {
                "actor/reward_kl_penalty": 0.35 * (1 - math.exp(-step / 110)) * learned + noise(0.008),
                "actor/entropy": (0.05 + 0.42 * math.exp(-step / 45)) * math.exp(noise(0.06)),
                "actor/grad_norm": (2.0 + 2.5 * learned) * math.exp(noise(0.15)) * spike,
                "critic/score/mean": min(1.0, max(0.0, 0.6 * learned + 0.0004 * step + noise(0.03))),
                "critic/score/max": 1.0,
                "critic/score/min": 0.0,
                "response_length/mean": 160 + 75 * (1 - learned) + noise(5),
                "critic/vf_explained_var": 0.6 - 1.8 * math.exp(-step / 15) + noise(0.07),
                "rollout/repetition": min(1.0, max(0.0, 0.05 + noise(0.02))),
                GOLD: min(1.0, max(0.0, 0.55 * learned + 0.0003 * step + noise(0.03))),
            }
        )
    return course


Fault = Callable[[Course, int], Course]


def _from(
    course: Course, start: int, change: Callable[[dict[str, float], int, dict[str, float]], None]
) -> Course:
    """A copy in which `change(metrics, steps since the fault began, metrics at its start)` was applied."""
    at_start = dict(course[start])
    changed = [dict(metrics) for metrics in course]
    for since, metrics in enumerate(changed[start:], start=1):
        change(metrics, since, at_start)
    return changed


def kl_ramp(course: Course, start: int) -> Course:
    """KL rises by 0.05 nats a step on top of its own course."""

    def change(metrics: dict[str, float], since: int, _: dict[str, float]) -> None:
        metrics["actor/reward_kl_penalty"] += 0.05 * since

    return _from(course, start, change)


def entropy_collapse(course: Course, start: int) -> Course:
    """Entropy loses 30% a step."""

    def change(metrics: dict[str, float], since: int, _: dict[str, float]) -> None:
        metrics["actor/entropy"] *= 0.7**since

    return _from(course, start, change)


def hacking(course: Course, start: int) -> Course:
    """The score gains 0.02 a step; gold loses 0.03 a step from where it was, with its own noise.

    In the published runs the score is the gold rule itself, so it serves as gold.
    """
    before = [metrics | {GOLD: metrics.get(GOLD, metrics["critic/score/mean"])} for metrics in course]

    def change(metrics: dict[str, float], since: int, _: dict[str, float]) -> None:
        noise = metrics[GOLD] - _smooth(before, start + since - 1, GOLD)
        metrics[GOLD] = max(0.0, _smooth(before, start, GOLD) - 0.03 * since + noise)
        metrics["critic/score/mean"] += 0.02 * since

    return _from(before, start, change)


def not_a_number(course: Course, start: int) -> Course:
    """The gradient norm is NaN."""

    def change(metrics: dict[str, float], since: int, _: dict[str, float]) -> None:
        metrics["actor/grad_norm"] = math.nan

    return _from(course, start, change)


def one_answer(course: Course, start: int) -> Course:
    """Every prompt gets the same 8-token answer: half the rest of the way each step."""

    def change(metrics: dict[str, float], since: int, first: dict[str, float]) -> None:
        left = 0.5**since
        metrics["response_length/mean"] = 8 + (first["response_length/mean"] - 8) * left
        metrics["actor/entropy"] *= left
        if "rollout/repetition" in metrics:
            metrics["rollout/repetition"] = 1 - (1 - first["rollout/repetition"]) * left

    return _from(course, start, change)


def critic_lost(course: Course, start: int) -> Course:
    """Explained variance loses 0.2 a step."""

    def change(metrics: dict[str, float], since: int, _: dict[str, float]) -> None:
        metrics["critic/vf_explained_var"] -= 0.2 * since

    return _from(course, start, change)


def score_crash(course: Course, start: int) -> Course:
    """The mean score falls by 0.3 (of a spread of 1) and stays there."""

    def change(metrics: dict[str, float], since: int, first: dict[str, float]) -> None:
        metrics["critic/score/mean"] = max(0.0, _smooth(course, start, "critic/score/mean") - 0.3)

    return _from(course, start, change)


def gradient_growth(course: Course, start: int) -> Course:
    """Gradient norms double each step."""

    def change(metrics: dict[str, float], since: int, _: dict[str, float]) -> None:
        metrics["actor/grad_norm"] *= 2.0**since

    return _from(course, start, change)


def _smooth(course: Course, step: int, name: str) -> float:
    return float(np.mean([metrics[name] for metrics in course[max(0, step - 4) : step + 1]]))
