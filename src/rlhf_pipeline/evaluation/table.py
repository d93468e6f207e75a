"""One comparison as a plain text table: figures in rows, policies in columns, intervals beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .verdict import reference_label

PER_SIDE = {
    "gold": "gold score",
    "judge": "held-out judge",
    "reward": "reward-model score",
    "response_tokens": "response tokens",
    "distinct_2": "distinct-2",
    "repetition": "repetition",
    "refusal_rate": "refusals",
}
OF_BOTH = {
    "win_rate": "win rate of the policy",
    "win_rate_length_controlled": "  at equal length",
    "kl_per_token": "KL per token (nats)",
    "kl_per_sequence": "KL per sequence (nats)",
    "pair_accuracy": "reward-model pair accuracy",
}


def with_interval(metrics: Mapping[str, Any], name: str) -> str:
    """`0.512 [0.480, 0.544]`, or `0.512 +- 0.010` with a standard error, or bare; empty when absent."""
    if name not in metrics:
        return ""
    value = f"{metrics[name]:.3f}"
    if f"{name}_ci_low" in metrics:
        return f"{value} [{metrics[f'{name}_ci_low']:.3f}, {metrics[f'{name}_ci_high']:.3f}]"
    return f"{value} +- {metrics[f'{name}_se']:.3f}" if f"{name}_se" in metrics else value


def comparison_table(titles: Mapping[str, str], metrics: Mapping[str, Any]) -> str:
    """The table; `titles` are the column heads, the reference's first."""
    label = reference_label(metrics)
    rows = [("", *titles.values())]
    for name, title in PER_SIDE.items():
        if f"{name}_policy" in metrics:
            rows.append((title, *(with_interval(metrics, f"{name}_{side}") for side in (label, "policy"))))
    rows += [(title, "", with_interval(metrics, name)) for name, title in OF_BOTH.items() if name in metrics]
    return aligned(rows)


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Rows of cells as text, columns lined up at the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
