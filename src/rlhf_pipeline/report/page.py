"""Puts the page together: figures, tables and samples into one HTML file that needs no network.

Style and script are inlined from templates/. Text from data goes through the template's escaping.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..evaluation.pairs import LENGTH_GAPS
from ..evaluation.verdict import verdict
from ..params import Params
from . import charts, facts
from .events import happened, rollback_reasons
from .inputs import Inputs

TEMPLATES = Path(__file__).parent / "templates"
MOST_SAMPLES = 500
MOST_CHARACTERS = 2_000_000


def render(inputs: Inputs, params: Params) -> str:
    """The whole page as HTML text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    figures = inputs.metrics["evaluate"]
    samples = shown_samples(inputs.samples)
    page = environment.get_template("page.html").render(
        style=Markup(_template("style.css")),
        script=Markup(_template("page.js")),
        verdict=verdict(figures),
        rollbacks=rollback_reasons(inputs.events),
        subtitle=_subtitle(inputs, params),
        tiles=facts.tiles(inputs),
        gains=charts.gain_figures(figures),
        learning=charts.learning_figures(inputs),
        opening=best_middle_worst(samples),
        frontier=charts.frontier_figures(inputs),
        health=charts.health_figures(inputs),
        supervised=charts.supervised_figures(inputs),
        happenings=happened(inputs.events),
        samples=samples,
        n_samples=len(inputs.samples),
        n_shown=params.evaluate.n_shown,
        reward_figures=charts.reward_model_figures(inputs.reward_model),
        breakdowns=_breakdowns(inputs.reward_model),
        artifacts=facts.artifacts(inputs),
        sources=facts.sources(inputs),
        rows=inputs.rows,
        costs=facts.costs(inputs, _gpus(params)),
        uses_gpus=bool(_gpus(params)),
        duration=facts.duration,
        number=charts.number,
        commit=inputs.commit,
        versions=inputs.versions,
        params_text=inputs.params_text,
        all_figures=facts.all_figures(inputs),
        Markup=Markup,
    )
    return re.sub(r"\n\s*\n+", "\n", page)


def shown_samples(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples that go into the page, in their order; an even spread when there are too many.

    Each carries `judge` (gold, judge or reward) and `gain`, policy minus SFT by it. A page stays below
    some megabytes: at most 500 samples and two million characters.
    """
    if not samples:
        return []
    judge = next(name for name in ("gold", "judge", "reward") if f"{name}_policy" in samples[0])
    scored = [
        {**sample, "judge": judge, "gain": sample[f"{judge}_policy"] - sample[f"{judge}_sft"]}
        for sample in samples
    ]
    length = max(
        len(sample["prompt"]) + len(sample["response_sft"]) + len(sample["response_policy"])
        for sample in scored
    )
    most = max(1, min(MOST_SAMPLES, MOST_CHARACTERS // max(1, length)))
    stride = -(-len(scored) // most)
    return scored[::stride]


def best_middle_worst(samples: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples with the largest, the median and the smallest gain: no pick that flatters."""
    ranked = sorted(samples, key=lambda sample: -sample["gain"])
    places = dict.fromkeys([0, len(ranked) // 2, len(ranked) - 1]) if ranked else {}
    return [ranked[place] for place in places]


def _breakdowns(details: dict[str, Any]) -> list[tuple[str, list[tuple[str, str, int]]]]:
    """(title, [(label, accuracy, pairs)]) of the reward model's accuracy."""
    found = []
    for key, title in (("by_source", "source"), ("by_length_gap", "length gap")):
        rows: dict[str, Any] = details.get(key, {})
        labels = sorted(rows, key=lambda label: LENGTH_GAPS.index(label) if label in LENGTH_GAPS else -1)
        table = [(label, f"{rows[label]['accuracy']:.1%}", rows[label]["pairs"]) for label in labels]
        found += [(title, table)] if table else []
    return found


def _subtitle(inputs: Inputs, params: Params) -> str:
    names = ", ".join(source.name for source in params.data.sources)
    steps = inputs.metrics.get("ppo", {}).get("steps")
    algorithm = {"gae": "PPO with a critic", "grpo": "GRPO"}[params.ppo.adv_estimator]
    if params.ppo.distillation.enabled:
        rewarded = params.ppo.distillation.task_rewards
        algorithm = f"{algorithm} and a teacher" if rewarded else "a teacher's help alone"
    if params.ppo.best_of_n.enabled:
        algorithm = f"best-of-n distillation ({params.ppo.best_of_n.candidates})"
    model = params.model.hub_name if params.model.source == "hub" else f"{params.model.source} base model"
    length = f", {steps} steps" if steps else ""
    return f"{model}, trained on {names} with {algorithm}{length}, seed {params.seed}"


def _gpus(params: Params) -> int:
    from ..hardware import resolve_device

    on_gpu = resolve_device(params) == "cuda"
    return params.hardware.n_gpus_per_node * params.hardware.nnodes if on_gpu else 0


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
