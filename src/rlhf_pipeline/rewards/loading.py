"""Finds the scoring function that params name: a rule of ours, or a function in a file of the user's."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

from ..errors import ParamsError
from . import rule_by_name


def load_rule(kind: str) -> Callable[..., Any]:
    """The function behind "rule:NAME" or "function:FILE:NAME", with the signature of rewards/__init__.py.

    Raises:
        ParamsError: when the user's file or function does not exist.
    """
    which, _, rest = kind.partition(":")
    if which == "rule":
        return rule_by_name(rest)
    path, _, name = rest.rpartition(":")
    spec = importlib.util.spec_from_file_location("rlhf_user_reward", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise ParamsError(f"ppo.reward.function_path: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ParamsError(f"ppo.reward.function_name: {path} has no function {name}")
    return function


def scored(rule: Callable[..., Any], row: Any, response: str) -> float:
    """What a rule says of `response` to `row`, a row of the prompts table."""
    result = rule(
        data_source=row["data_source"],
        solution_str=response,
        ground_truth=row["reward_model"]["ground_truth"],
        extra_info={**row["extra_info"], "prompt": list(row["prompt"])},
    )
    return float(result["score"] if isinstance(result, dict) else result)
