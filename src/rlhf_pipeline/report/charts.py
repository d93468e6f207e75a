"""Chooses what the report draws: which columns of which curve share a chart, under which words.

Returns figures (title, note, SVG); where they stand on the page is page.py's matter. A chart whose
column was not measured is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .events import happened, marks
from .inputs import Curve, Inputs
from .svg import (
    Row,
    Series,
    calibration_chart,
    histogram,
    interval_chart,
    line_chart,
    number,
    plane_chart,
)


class Figure(NamedTuple):
    """One chart and the words around it."""

    title: str
    note: str
    svg: str
    legend: tuple[tuple[str, str], ...] = ()
    """(CSS class, name) of each line, when there are several."""


_Lines = Sequence[tuple[str, str, str]]
"""(column, name, style) of each line of one chart."""

_LEARNING: tuple[tuple[str, str, _Lines], ...] = (
    ("Gold score", "validation prompts, by the gold rule", [("validation_gold", "gold", "policy")]),
    ("Win rate over the first policy", "validation prompts", [("validation_win_rate", "win rate", "policy")]),
    (
        "Reward-model score",
        "what PPO maximises",
        [("reward", "training batches", "other"), ("validation_reward", "validation prompts", "policy")],
    ),
    ("KL from SFT", "nats per token, on the sampled tokens", [("kl", "KL(policy || SFT)", "policy")]),
    (
        "Distance to the teacher",
        "nats per token: mean |log-ratio| for k1, KL for k3",
        [("teacher_loss", "distance", "policy")],
    ),
    (
        "Loss on the best responses",
        "nats per token",
        [("train_loss", "training", "other"), ("validation_loss", "validation", "policy")],
    ),
)
_HEALTH: tuple[tuple[str, str, _Lines], ...] = (
    ("KL coefficient", "how hard the policy is held", [("kl_coef", "coefficient", "policy")]),
    ("Entropy", "nats per token", [("entropy", "entropy", "policy")]),
    ("Response length", "tokens", [("response_tokens", "tokens", "policy")]),
    ("Critic", "explained variance of the returns", [("explained_variance", "explained", "policy")]),
    (
        "Gradient norm",
        "before clipping",
        [("actor_grad_norm", "actor", "policy"), ("critic_grad_norm", "critic", "other")],
    ),
    ("Step time", "seconds", [("step_s", "whole step", "policy"), ("generation_s", "generation", "other")]),
)
_SUPERVISED: dict[str, tuple[tuple[str, str, _Lines], ...]] = {
    "sft": (
        (
            "SFT loss",
            "nats per token",
            [("train_loss", "training", "other"), ("validation_loss", "validation", "policy")],
        ),
    ),
    "reward_model": (
        (
            "Reward-model loss",
            "nats per pair",
            [("train_loss", "training", "other"), ("validation_loss", "validation", "policy")],
        ),
        (
            "Pair accuracy",
            "share of pairs in the right order",
            [("train_accuracy", "training", "other"), ("pair_accuracy", "validation", "policy")],
        ),
        (
            "Margin",
            "score of chosen minus rejected",
            [("train_margin", "training", "other"), ("margin", "validation", "policy")],
        ),
    ),
    "judge": (
        (
            "Judge",
            "share of pairs in the right order",
            [("train_accuracy", "training", "other"), ("pair_accuracy", "validation", "policy")],
        ),
    ),
}


def learning_figures(inputs: Inputs) -> list[Figure]:
    """Gold, win rate, reward and KL over PPO's steps, with what happened on the way."""
    return _figures(inputs.curves.get("ppo", {}), _LEARNING, inputs)


def health_figures(inputs: Inputs) -> list[Figure]:
    """What an engineer looks at when a run went wrong."""
    return _figures(inputs.curves.get("ppo", {}), _HEALTH, inputs)


def supervised_figures(inputs: Inputs) -> list[Figure]:
    """Training and validation curves of SFT, reward model and judge."""
    return [
        figure
        for stage, charts in _SUPERVISED.items()
        for figure in _figures(inputs.curves.get(stage, {}), charts, None)
    ]


def gain_figures(metrics: Mapping[str, Any]) -> list[Figure]:
    """Before and after on the test prompts, with 95% intervals."""
    found = []
    names = {"gold": "Gold score", "judge": "Held-out judge", "reward": "Reward-model score"}
    for judge, title in names.items():
        if f"{judge}_policy" in metrics:
            rows = [
                _row("SFT", metrics, f"{judge}_sft", "sft"),
                _row("policy", metrics, f"{judge}_policy", "policy"),
            ]
            found.append(Figure(title, f"{metrics['n_prompts']} test prompts", interval_chart(rows)))
    rows = [
        _row(word, metrics, f"win_rate_by_{judge}", "policy")
        for judge, word in (("gold", "gold"), ("judge", "judge"), ("reward", "reward"))
        if f"win_rate_by_{judge}" in metrics
    ]
    rows.append(_row("equal len.", metrics, "win_rate_length_controlled", "other"))
    chart = interval_chart(rows, level=(0.5, "no better than SFT"))
    found.append(Figure("Win rate over SFT", "by each judge, and by the first at equal length", chart))
    return found


def frontier_figures(inputs: Inputs) -> list[Figure]:
    """Validation reward, and gold or win rate, against KL, step by step: where over-optimisation shows."""
    curve = inputs.curves.get("ppo", {})
    found = []
    for column, title in (
        ("validation_reward", "Reward-model score against KL"),
        ("validation_gold", "Gold score against KL"),
        ("validation_win_rate", "Win rate against KL"),
    ):
        points = frontier_points(curve, column)
        if len(points) >= 2:
            best_step = inputs.metrics.get("ppo", {}).get("best_step")
            best = next((place for place, (step, _, _) in enumerate(points) if step == best_step), None)
            labelled = [
                (kl, value, f"step {step:g}: KL {number(kl)}, {number(value)}") for step, kl, value in points
            ]
            note = "one point a validation; the ring is the published step"
            found.append(Figure(title, note, plane_chart(labelled, "KL per token (nats)", best)))
    return found


def frontier_points(curve: Curve, column: str) -> list[tuple[float, float, float]]:
    """(step, KL per token, value) at each step where `column` was measured; KL is the newest one before it.

    A validation before the first step stands at KL 0: the policy still is the SFT model.
    """
    points = []
    kl = 0.0
    steps, kls = curve.get("step", []), curve.get("kl", [])
    for index, value in enumerate(curve.get(column, [])):
        kl = next((known for known in [kls[index] if kls else None] if known is not None), kl)
        step = steps[index]
        if value is not None and step is not None:
            points.append((step, kl, value))
    return points


def reward_model_figures(details: Mapping[str, Any]) -> list[Figure]:
    """Calibration and margins of the reward model on the test pairs."""
    if not details:
        return []
    error = number(details["calibration"]["error"])
    margins = details["margins"]
    return [
        Figure(
            "Calibration",
            f"accuracy over confidence; expected calibration error {error}",
            calibration_chart(details["calibration"]["bins"]),
        ),
        Figure(
            "Margins",
            "score of chosen minus rejected; wrong ones in colour",
            histogram(margins["edges"], margins["counts"], "margin"),
        ),
    ]


def _figures(curve: Curve, charts: Sequence[tuple[str, str, _Lines]], inputs: Inputs | None) -> list[Figure]:
    steps = [step for step in curve.get("step", []) if step is not None]
    shown = marks(happened(inputs.events)) if inputs else []
    found = []
    for title, note, lines in charts:
        series = [
            Series(name, steps, curve[column], style)
            for column, name, style in lines
            if any(value is not None for value in curve.get(column, []))
        ]
        if series:
            legend = tuple((one.style, one.name) for one in series) if len(series) > 1 else ()
            found.append(Figure(title, note, line_chart(series, shown), legend))
    return found


def _row(name: str, metrics: Mapping[str, Any], key: str, style: str) -> Row:
    return Row(name, metrics[key], metrics[f"{key}_ci_low"], metrics[f"{key}_ci_high"], style)
