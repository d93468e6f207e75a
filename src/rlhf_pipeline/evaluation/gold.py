"""Which prompts a rule can judge, and what it says of their responses.

The rules themselves are in rewards/. A prompt has one when its row says so (`reward_model.style` is
rule) and its kind is known here; ground truths of unknown kinds are not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data.synthetic import ABILITY as DESK_REPLY
from ..rewards import rule_by_name

RULE_OF_ABILITY = {DESK_REPLY: "synthetic", "math": "gsm8k"}


def rule_name(row: Mapping[str, Any]) -> str | None:
    """The rule that judges responses to a row of the prompts table, or None."""
    if row["reward_model"]["style"] != "rule":
        return None
    return RULE_OF_ABILITY.get(row["ability"])


def has_rule(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether every row has a rule; a mean over some of the prompts would not compare with other figures."""
    return all(rule_name(row) for row in rows)


def gold_scores(rows: Sequence[Mapping[str, Any]], responses: Sequence[str]) -> list[float]:
    """The rule's score in [0, 1] of each response to the row beside it.

    Raises:
        ValueError: when a row has no rule.
    """
    scores = []
    for row, response in zip(rows, responses, strict=True):
        name = rule_name(row)
        if name is None:
            raise ValueError(f"no rule judges {row['ability']!r} prompts")
        result = rule_by_name(name)(
            data_source=row["data_source"],
            solution_str=response,
            ground_truth=row["reward_model"]["ground_truth"],
            extra_info={**row["extra_info"], "prompt": row["prompt"]},
        )
        scores.append(float(result["score"] if isinstance(result, dict) else result))
    return scores
