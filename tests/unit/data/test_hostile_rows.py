"""Any value anywhere in a row: every shape converts it to text in roles, or refuses with one RowError."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from rlhf_pipeline.data.items import Demonstration, Item, Preference, RowError
from rlhf_pipeline.data.shapes import SHAPES

from .test_shapes import ROWS

JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, float("nan"), float("inf"), 10**400, "", "x", "\ud800", "####", b"x", (1,),
    [], {}, [None], [[]], [{}], {"a": None}, [{"role": None, "content": None}],
    {"text": "a", "replies": None}, {"text": "a", "replies": [None]},
)  # fmt: skip
ROLES = {"system", "user", "assistant", "tool"}
TALK = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
HERE: dict[str, list[dict[str, Any]]] = ROWS | {
    "qa_feedback": [
        {"question": "Why?", "passages": [["a", "b"]], "preference": [1, 2, 0, 1, 2, 0], "gold": "g"}
        | {f"prediction {number}": f"p{number}" for number in range(1, 5)},
    ],
    "verl": [
        {"data_source": "d", "prompt": TALK[:1], "reward_model": {"style": "rule", "ground_truth": "4"}},
    ],
    "question_answer": [{"question": "Why?", "answer": "So #### 4"}],
    "messages": [{"messages": TALK}, {"conversations": [{"from": "human", "value": "a"}, TALK[1]]}],
    "instances": [{"instruction": "Why?", "instances": [{"input": "a", "output": "b"}]}],
    "instruction": [{"instruction": "Why?", "input": "a", "output": "b"}],
    "completion": [{"prompt": "Why?", "completion": "Because."}],
    "prompts": [{"prompt": "Why?", "ground_truth": "4"}],
}
EVERY_ROW = [row for rows in HERE.values() for row in rows]


def spots(found: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a row, at any depth."""
    keys = found.keys() if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
    for key in keys:
        yield (*path, key)
        yield from spots(found[key], (*path, key))


def changed(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The row with one value lost, or replaced by junk, for every value."""
    for *path, last in spots(row):
        for junk in (..., *JUNK):
            other = copy.deepcopy(row)
            place: Any = other
            for key in path:
                place = place[key]
            if junk is ...:
                del place[last]
            else:
                place[last] = copy.deepcopy(junk)
            yield other


def texts(item: Item) -> Iterator[str]:
    messages = item.messages if isinstance(item, Demonstration) else item.prompt
    assert {message["role"] for message in messages} <= ROLES
    yield from (message["content"] for message in messages)
    if isinstance(item, Preference):
        yield from (item.chosen, item.rejected)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_any_value_is_converted_or_refused(shape: Any) -> None:
    refused = 0
    rows = [*EVERY_ROW, *(other for row in HERE[shape.name] for other in changed(row))]
    for row in rows:
        shape.recognises(row)
        try:
            items = shape.convert(row, {})
        except RowError:
            refused += 1
            continue
        for item in items:
            for text in texts(item):
                text.encode("utf-8")
    assert 0 < refused < len(rows)
