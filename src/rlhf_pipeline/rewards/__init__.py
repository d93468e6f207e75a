"""Rules that score a response without a model, under the names that params.yaml uses.

Every rule has verl's signature: (data_source, solution_str, ground_truth, extra_info) -> score in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def rule_by_name(name: str) -> Callable[..., float]:
    """The rule called `name` (synthetic, gsm8k).

    Raises:
        KeyError: when there is none of that name.
    """
    return {"synthetic": _synthetic, "gsm8k": _gsm8k}[name]


def _synthetic(data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]) -> float:
    from .gold import gold_score

    prompt = next(
        message["content"] for message in reversed(extra_info["prompt"]) if message["role"] == "user"
    )
    return gold_score(prompt, solution_str)


def _gsm8k(data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any]) -> float:
    from .gsm8k import gsm8k_score

    return gsm8k_score(solution_str, ground_truth)
