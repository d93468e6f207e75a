"""The end of a run in ten lines of text, for the terminal: verdict first, then figures, then where to look.

`python -m rlhf_pipeline.report.summary` prints it for the current workspace.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .. import errors, paths
from ..evaluation.verdict import verdict
from .facts import STAGE_TITLES, duration
from .inputs import read_metrics
from .svg import number

Metrics = Mapping[str, Mapping[str, Any]]


def summary(metrics: Metrics | None = None, wall_s: float | None = None) -> str:
    """At most ten lines over every stage's figures (read from reports/metrics/ when None).

    `wall_s` is the time the user waited; without it the stages' own times are added up.

    Raises:
        DataError: when the figures of the evaluation are missing or damaged.
    """
    stages = read_metrics() if metrics is None else metrics
    if "evaluate" not in stages:
        raise errors.DataError(f"{paths.metrics('evaluate')} does not exist: run `dvc repro evaluate` first")
    figures, ppo = stages["evaluate"], stages.get("ppo", {})
    said = verdict(figures)
    rows = [
        ("gold score", _change(figures, "gold")),
        ("held-out judge", _change(figures, "judge")),
        ("reward", _change(figures, "reward")),
        ("win rate", f"{figures['win_rate']:.3f} {_ends(figures, 'win_rate')} over SFT"),
        ("KL from SFT", _kl(figures)),
        ("reward model", _accuracy(figures)),
        ("PPO" if "rollbacks" in ppo else "best of n", _ppo(ppo)),
        ("time", _time(stages, wall_s)),
        ("report", f'{paths.REPORT_HTML}; ask the policy: make chat PROMPT="..."'),
    ]
    lines = [f"{name:<15}{text}" for name, text in rows if text]
    return "\n".join([said.sentence, *lines, *said.caveats[: 9 - len(lines)]])


def main() -> None:
    """Print the summary of the current workspace."""
    print(summary())


def _change(figures: Mapping[str, Any], judge: str) -> str:
    if f"{judge}_policy" not in figures:
        return ""
    before, after = figures[f"{judge}_sft"], figures[f"{judge}_policy"]
    return f"{before:.3f} {_ends(figures, f'{judge}_sft')} -> {after:.3f} {_ends(figures, f'{judge}_policy')}"


def _ends(figures: Mapping[str, Any], name: str) -> str:
    return f"[{figures[f'{name}_ci_low']:.3f}, {figures[f'{name}_ci_high']:.3f}]"


def _kl(figures: Mapping[str, Any]) -> str:
    if "kl_per_token" not in figures:
        return ""
    per_token, error = figures["kl_per_token"], figures["kl_per_token_se"]
    return f"{per_token:.4f} +- {error:.4f} nats per token, {figures['kl_per_sequence']:.2f} per response"


def _accuracy(figures: Mapping[str, Any]) -> str:
    if "pair_accuracy" not in figures:
        return ""
    return f"{figures['pair_accuracy']:.1%} of {figures['n_pairs']} unseen pairs in the right order"


def _ppo(ppo: Mapping[str, Any]) -> str:
    parts = []
    if ppo.get("steps"):
        parts.append(f"{ppo['steps']} steps")
    if ppo.get("best_step") is not None:
        score = f"validation {number(ppo['best_score'])}" if "best_score" in ppo else _loss(ppo)
        parts.append(f"best at step {ppo['best_step']} ({score})")
    if "rollbacks" in ppo:
        parts.append(f"{ppo['rollbacks']} rollback" + ("" if ppo["rollbacks"] == 1 else "s"))
    return ", ".join(parts)


def _loss(ppo: Mapping[str, Any]) -> str:
    return f"validation loss {number(ppo['validation_loss'])}"


def _time(stages: Metrics, wall_s: float | None) -> str:
    spent = {stage: figures["wall_s"] for stage, figures in stages.items() if figures.get("wall_s")}
    if not spent and wall_s is None:
        return ""
    parts = ", ".join(f"{STAGE_TITLES[stage]} {duration(seconds)}" for stage, seconds in spent.items())
    return duration(sum(spent.values()) if wall_s is None else wall_s) + (f" ({parts})" if parts else "")


if __name__ == "__main__":
    sys.exit(errors.main(main))
