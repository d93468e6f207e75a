"""Shapes with one response or none: demonstrations, conversations, checkable answers, verl's RL schema.

Comparisons are in pairs.py and ranked.py.
"""

from __future__ import annotations

import re

from ..fields import ROLES, is_messages, messages, prompt_of, response_of, shown, text, value
from ..items import Demonstration, Item, Options, Prompt, Raw, RowError, demonstration, user
from .base import Shape, first_of, has_text
from .ranked import instruction_prompt

FINAL_ANSWER = re.compile(r"####\s*(.+?)\s*$")


def _is_verl(row: Raw) -> bool:
    return {"data_source", "prompt", "reward_model"} <= row.keys()


def _verl(row: Raw, options: Options) -> list[Item]:
    rule = value(row, "reward_model")
    if not isinstance(rule, dict) or "style" not in rule:
        raise RowError(f"column 'reward_model' must hold style and ground_truth, got {shown(rule)}")
    truth = rule.get("ground_truth")
    style = text(rule, "style")
    if style not in ("rule", "model"):
        raise RowError(f"column 'reward_model.style' must be rule or model, got {shown(style)}")
    if truth is not None and not isinstance(truth, str):
        raise RowError(f"column 'reward_model.ground_truth' must hold text, got {shown(truth)}")
    return [
        Prompt(prompt_of(row, "prompt"), truth or "", style, text(row, "ability", optional=True) or "general")
    ]


def _is_checkable(row: Raw) -> bool:
    return has_text(row, "question", "answer") and "####" in (row["answer"] or "")


def _checkable(row: Raw, options: Options) -> list[Item]:
    question, answer = text(row, "question"), text(row, "answer")
    found = FINAL_ANSWER.search(answer)
    if found is None:
        raise RowError(f"column 'answer' must end with '#### <final answer>', got {shown(answer[-60:])}")
    truth = found.group(1).replace(",", "")
    return [demonstration(user(question), answer), Prompt(user(question), truth, "rule", "math")]


def _conversation_column(row: Raw) -> str | None:
    column = first_of(row, "messages", "conversations", "conversation")
    return column if column is not None and is_messages(row[column]) else None


def _conversation(row: Raw, options: Options) -> list[Item]:
    column = first_of(row, "messages", "conversations", "conversation") or "messages"
    turns = messages(row, column)
    if turns[-1]["role"] != "assistant":
        raise RowError(
            f"column {column!r} must end with the assistant's message, it ends with the {turns[-1]['role']}'s"
        )
    return [Demonstration(turns)]


def _instruction(row: Raw, options: Options) -> list[Item]:
    column = first_of(row, "output", "response") or "output"
    return [demonstration(instruction_prompt(row), text(row, column))]


def _is_instances(row: Raw) -> bool:
    return has_text(row, "instruction") and isinstance(row.get("instances"), list)


def _instances(row: Raw, options: Options) -> list[Item]:
    items: list[Item] = []
    found = value(row, "instances")
    if not isinstance(found, list):
        raise RowError(f"column 'instances' must hold a list, got {shown(found)}")
    for n, one in enumerate(found):
        if not isinstance(one, dict):
            raise RowError(f"column 'instances[{n}]' must hold input and output, got {shown(one)}")
        prompt = instruction_prompt({"instruction": text(row, "instruction"), "input": one.get("input")})
        items.append(demonstration(prompt, text(one, "output")))
    if not items:
        raise RowError("column 'instances' is empty")
    return items


def _completion(row: Raw, options: Options) -> list[Item]:
    column = first_of(row, "completion", "response", "answer", "output") or "completion"
    prompt = first_of(row, "prompt", "question", "query") or "prompt"
    return [demonstration(prompt_of(row, prompt), response_of(row, column))]


def _is_completion(row: Raw) -> bool:
    return (
        first_of(row, "prompt", "question", "query") is not None
        and first_of(row, "completion", "response", "answer", "output") is not None
    )


def _prompts(row: Raw, options: Options) -> list[Item]:
    truth = text(row, "ground_truth", optional=True)
    return [Prompt(prompt_of(row, "prompt"), truth, "rule" if truth else "model", "general")]


SHAPES = (
    Shape("verl", "data_source, prompt (messages), reward_model {style, ground_truth}", _is_verl, _verl),
    Shape(
        "question_answer",
        "question and answer, the answer ending in '#### <final answer>'",
        _is_checkable,
        _checkable,
    ),
    Shape(
        "messages",
        f"messages (or conversations): a list of role and content; roles {', '.join(ROLES)}",
        lambda row: _conversation_column(row) is not None,
        _conversation,
    ),
    Shape("instances", "instruction and instances, a list of {input, output}", _is_instances, _instances),
    Shape(
        "instruction",
        "instruction, input (may be empty) and output",
        lambda row: has_text(row, "instruction") and first_of(row, "output", "response") is not None,
        _instruction,
    ),
    Shape(
        "completion",
        "prompt (or question, query) and completion (or response, answer, output)",
        _is_completion,
        _completion,
    ),
    Shape("prompts", "prompt, and ground_truth if there is one", lambda row: "prompt" in row, _prompts),
)
