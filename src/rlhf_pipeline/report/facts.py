"""The report's tables: key figures, what each stage cost, where data and models came from, all figures.

Plain rows out of the inputs; words and layout are the template's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..evaluation.table import with_interval
from .inputs import Inputs
from .svg import number

STAGE_TITLES = {
    "base_model": "Base model",
    "data": "Data gate",
    "sft": "SFT",
    "reward_model": "Reward model",
    "judge": "Judge",
    "ppo": "PPO",
    "evaluate": "Evaluation",
}


class Tile(NamedTuple):
    """One key figure."""

    name: str
    value: str
    note: str


class Cost(NamedTuple):
    """What one stage cost."""

    title: str
    wall_s: float
    startup_s: float
    gpu_hours: float
    tokens: int | None
    share: float
    """Of the dearest stage's wall time, in [0, 1]."""


class Artifact(NamedTuple):
    """One folder in the lineage."""

    folder: str
    manifest: str
    facts: str
    size: str
    files: list[tuple[str, str]]
    """(path, sha256) of every file in it."""


def tiles(inputs: Inputs) -> list[Tile]:
    """The figures a reader wants first."""
    figures = inputs.metrics["evaluate"]
    ppo = inputs.metrics.get("ppo", {})
    found = []
    if "gold_policy" in figures:
        change = f"{figures['gold_sft']:.2f} → {figures['gold_policy']:.2f}"
        found.append(Tile("Gold, SFT → policy", change, _gain(figures, "gold")))
    else:
        change = f"{figures['reward_sft']:.2f} → {figures['reward_policy']:.2f}"
        found.append(Tile("Reward, SFT → policy", change, _gain(figures, "reward")))
    found.append(Tile("Win rate over SFT", f"{figures['win_rate']:.0%}", _ends(figures, "win_rate")))
    if "kl_per_token" in figures:
        error = number(figures["kl_per_token_se"])
        found.append(Tile("KL from SFT", number(figures["kl_per_token"]), f"± {error} nats a token"))
    if "pair_accuracy" in figures:
        accuracy = f"{figures['pair_accuracy']:.0%}"
        found.append(Tile("Reward-model accuracy", accuracy, _ends(figures, "pair_accuracy")))
    if "rollbacks" in ppo:
        step = f"best step {ppo['best_step']}" if ppo.get("best_step") is not None else "during PPO"
        found.append(Tile("Rollbacks", str(ppo["rollbacks"]), step))
    total = sum(stage.get("wall_s", 0.0) for stage in inputs.metrics.values())
    if total:
        found.append(Tile("Wall time", duration(total), "all stages"))
    return found


def costs(inputs: Inputs, n_gpus: int) -> list[Cost]:
    """One row per stage that says how long it took; `n_gpus` is 0 for a CPU run."""
    timed = {stage: figures for stage, figures in inputs.metrics.items() if figures.get("wall_s")}
    most = max((figures["wall_s"] for figures in timed.values()), default=1.0)
    return [
        Cost(
            STAGE_TITLES[stage],
            figures["wall_s"],
            figures.get("startup_s", 0.0),
            figures["wall_s"] * n_gpus / 3600,
            figures.get("tokens"),
            figures["wall_s"] / most,
        )
        for stage, figures in timed.items()
    ]


def artifacts(inputs: Inputs) -> list[Artifact]:
    """Every folder that has a manifest, with the hash that stands for all its files."""
    found = []
    for folder, manifest in inputs.manifests.items():
        known = {
            key: value
            for key, value in manifest.items()
            if key not in ("files", "manifest_version", "sha256", "sources")
            and not isinstance(value, (dict, list))
        }
        facts = ", ".join(f"{key} {value}" for key, value in known.items() if value is not None)
        size = sum(entry["bytes"] for entry in manifest["files"].values())
        files = [(name, entry["sha256"]) for name, entry in manifest["files"].items()]
        text = f"{len(files)} files, {bytes_text(size)}"
        found.append(Artifact(folder, manifest["sha256"], facts, text, files))
    return found


def sources(inputs: Inputs) -> list[tuple[str, str]]:
    """(source, what came out of it) as data/prepared's manifest says."""
    entries: Mapping[str, Any] = inputs.manifests.get("data/prepared", {}).get("sources") or {}
    return [
        (
            name,
            ", ".join(
                f"{key.replace('_', ' ')} {value}" for key, value in facts.items() if value not in (0, None)
            ),
        )
        for name, facts in entries.items()
        if isinstance(facts, Mapping)
    ]


def all_figures(inputs: Inputs) -> list[tuple[str, list[tuple[str, str]]]]:
    """(stage, [(figure, value with its interval)]): everything in reports/metrics/."""
    found = []
    for stage, figures in inputs.metrics.items():
        rows = []
        for name, value in figures.items():
            if name.endswith(("_ci_low", "_ci_high")) or (name.endswith("_se") and name[:-3] in figures):
                continue
            rows.append((name, with_interval(figures, name) if isinstance(value, float) else str(value)))
        found.append((STAGE_TITLES[stage], rows))
    return found


def duration(seconds: float) -> str:
    """`48 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def bytes_text(count: float) -> str:
    """`12 kB`, `3.4 MB`, `15 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _gain(figures: Mapping[str, Any], judge: str) -> str:
    low, high = (figures[f"{judge}_gain{end}"] for end in ("_ci_low", "_ci_high"))
    return f"95% of gain {low:+.2f} to {high:+.2f}"


def _ends(figures: Mapping[str, Any], name: str) -> str:
    return f"95% {figures[f'{name}_ci_low']:.0%} to {figures[f'{name}_ci_high']:.0%}"
