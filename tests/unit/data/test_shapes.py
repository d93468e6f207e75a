"""Every known layout: recognised from its first row, and what becomes of a row, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from rlhf_pipeline.data.items import Demonstration, Item, Place, Preference, Prompt, RawRow, RowError
from rlhf_pipeline.data.shapes import SHAPES, named, recognise
from rlhf_pipeline.errors import DataError

Q = [{"role": "user", "content": "Why?"}]
A = {"role": "assistant", "content": "Because."}
B = {"role": "assistant", "content": "No."}

ROWS: dict[str, list[dict[str, Any]]] = {
    "preference": [
        {"prompt": "Why?", "chosen": "Because.", "rejected": "No."},
        {"question": "Why?", "chosen": "Because.", "rejected": "No.", "id": 7},
        {"prompt": Q, "chosen": [A], "rejected": [B]},
    ],
    "preference_conversations": [
        {"chosen": [*Q, A], "rejected": [*Q, B]},
        {"prompt": "Why?", "chosen": [*Q, A], "rejected": [*Q, B]},
        {
            "chosen": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}],
            "rejected": [*Q, B],
        },
    ],
    "preference_transcripts": [
        {"chosen": "\n\nHuman: Why?\n\nAssistant: Because.", "rejected": "\n\nHuman: Why?\n\nAssistant: No."},
        {"chosen": "Human: Why?\n\nAssistant: Because.", "rejected": "Human: Why?\n\nAssistant: No."},
    ],
    "pandalm": [
        {
            "instruction": "Why?",
            "input": "",
            "response1": "No.",
            "response2": "Because.",
            "annotator1": 2,
            "annotator2": 2,
            "annotator3": 0,
        },
    ],
    "graded_solutions": [
        {
            "question": "Why?",
            "a": {"is_correct": False, "solution": "No."},
            "b": {"is_correct": True, "solution": "Because."},
        },
    ],
    "ranked": [
        {"prompt": "Why?", "responses": ["No.", "Because."], "scores": [0.1, 0.9]},
        {"prompt": "Why?", "answers": ["No.", "Because."], "ranks": [2, 1]},
        {"prompt": Q, "responses": [{"text": "No.", "rank": 1}, {"text": "Because.", "rank": 0}]},
    ],
    "reply_tree": [
        {
            "prompt": {
                "text": "Why?",
                "role": "prompter",
                "replies": [
                    {"text": "No.", "role": "assistant", "rank": 1, "replies": []},
                    {"text": "Because.", "role": "assistant", "rank": 0, "replies": []},
                ],
            }
        },
        {"text": "Why?", "replies": [{"text": "No.", "score": -1}, {"text": "Because.", "score": 3}]},
    ],
}


def recognised(row: dict[str, Any]) -> str:
    return recognise(RawRow(Place("a.jsonl", 1), row)).name


def items(row: dict[str, Any], **options: Any) -> list[Item]:
    return recognise(RawRow(Place("a.jsonl", 1), row)).convert(row, options)


@pytest.mark.parametrize(("shape", "row"), [(name, row) for name, rows in ROWS.items() for row in rows])
def test_a_comparison_gives_a_pair_a_demonstration_and_a_prompt(shape: str, row: dict[str, Any]) -> None:
    assert recognised(row) == shape
    found = items(row)
    [pair] = [one for one in found if isinstance(one, Preference)]
    assert (pair.prompt, pair.chosen, pair.rejected) == (Q, "Because.", "No.")
    assert [one.messages for one in found if isinstance(one, Demonstration)] == [[*Q, A]]
    assert [(one.prompt, one.style) for one in found if isinstance(one, Prompt)] == [(Q, "model")]


@pytest.mark.parametrize(
    ("shape", "row", "messages"),
    [
        ("messages", {"messages": [*Q, A]}, [[*Q, A]]),
        (
            "messages",
            {"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}]},
            [[*Q, A]],
        ),
        ("instruction", {"instruction": "Why?", "input": "", "output": "Because."}, [[*Q, A]]),
        ("instruction", {"instruction": "Why?", "input": None, "output": "Because."}, [[*Q, A]]),
        (
            "instruction",
            {"instruction": "Add.", "input": "1 2", "output": "3"},
            [[{"role": "user", "content": "Add.\n\n1 2"}, {"role": "assistant", "content": "3"}]],
        ),
        (
            "instances",
            {
                "instruction": "Why?",
                "instances": [{"input": "", "output": "Because."}, {"input": "", "output": "No."}],
            },
            [[*Q, A], [*Q, B]],
        ),
        ("completion", {"prompt": "Why?", "completion": "Because."}, [[*Q, A]]),
        ("completion", {"question": "Why?", "answer": "Because."}, [[*Q, A]]),
    ],
)
def test_demonstrations(shape: str, row: dict[str, Any], messages: list[Any]) -> None:
    assert recognised(row) == shape
    assert items(row) == [Demonstration(one) for one in messages]


def test_a_checkable_answer_gives_a_rule_prompt() -> None:
    row = {"question": "Why?", "answer": "Half of 2,000 is 1,000.\n#### 1,000"}
    assert recognised(row) == "question_answer"
    demonstration, prompt = items(row)
    assert isinstance(demonstration, Demonstration)
    assert demonstration.messages[-1]["content"] == row["answer"]
    assert prompt == Prompt(Q, "1000", "rule", "math")


def test_verls_own_rows_keep_their_rule() -> None:
    row = {
        "data_source": "x",
        "prompt": Q,
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": "4"},
    }
    assert recognised(row) == "verl"
    assert items(row) == [Prompt(Q, "4", "rule", "math")]


def test_a_bare_prompt_is_checked_by_a_rule_only_if_there_is_a_truth() -> None:
    assert items({"prompt": "Why?"}) == [Prompt(Q, "", "model", "general")]
    assert items({"prompt": "Why?", "ground_truth": "4"}) == [Prompt(Q, "4", "rule", "general")]


@pytest.mark.parametrize(
    ("votes", "winner"),
    [
        ((1, 1, 0), "first"),
        ((1, 1, 2), "first"),
        ((2, 2, 2), "second"),
        ((1, 0, 0), None),
        ((1, 2, 0), None),
        ((0, 0, 0), None),
    ],
)
def test_votes_need_a_majority_of_all_annotators(votes: tuple[int, ...], winner: str | None) -> None:
    row: dict[str, Any] = {"instruction": "x", "input": "", "response1": "first", "response2": "second"}
    row |= {f"annotator{n}": vote for n, vote in enumerate(votes, start=1)}
    assert [one.chosen for one in items(row) if isinstance(one, Preference)] == ([winner] if winner else [])


def test_the_margin_of_votes_is_their_difference() -> None:
    row = {
        "instruction": "x",
        "input": "",
        "response1": "a",
        "response2": "b",
        "annotator1": 1,
        "annotator2": 1,
        "annotator3": 2,
    }
    [pair] = [one for one in items(row) if isinstance(one, Preference)]
    assert pair.margin == pytest.approx(1 / 3)


def test_six_pairwise_labels_over_four_responses() -> None:
    row: dict[str, Any] = {f"prediction {n}": f"response {n}" for n in range(1, 5)}
    # pairs 12 13 14 23 24 34: 1 beats 2, tie, 4 beats 1, 2 beats 3, 4 beats 2, 4 beats 3
    row |= {
        "question": "Why?",
        "passages": [["Title", "Line."]],
        "gold": "Because.",
        "preference": [1, 0, 2, 1, 2, 2],
    }
    found = items(row, max_passages=0)
    assert [(one.chosen[-1], one.rejected[-1]) for one in found if isinstance(one, Preference)] == [
        ("1", "2"),
        ("4", "1"),
        ("2", "3"),
        ("4", "2"),
        ("4", "3"),
    ]
    assert [one.messages[-1]["content"] for one in found if isinstance(one, Demonstration)] == ["response 4"]
    assert [one.ground_truth for one in found if isinstance(one, Prompt)] == ["Because."]
    with_passages = items(row)[0]
    assert isinstance(with_passages, Preference)
    assert with_passages.prompt[0]["content"] == "Title\nLine.\n\nWhy?"


def test_ranked_responses_make_every_strict_pair() -> None:
    row = {"prompt": "Why?", "responses": ["a", "b", "c", "d"], "scores": [1, 3, 3, 0]}
    pairs = [(one.chosen, one.rejected, one.margin) for one in items(row) if isinstance(one, Preference)]
    assert pairs == [("b", "a", 2), ("c", "a", 2), ("a", "d", 1), ("b", "d", 3), ("c", "d", 3)]


def test_a_reply_tree_is_walked_to_its_leaves() -> None:
    second = {
        "text": "And then?",
        "role": "prompter",
        "replies": [
            {"text": "x", "role": "assistant", "rank": 1, "replies": []},
            {"text": "y", "role": "assistant", "rank": 0, "replies": []},
            {"text": "gone", "role": "assistant", "rank": 2, "deleted": True, "replies": []},
        ],
    }
    tree = {
        "prompt": {
            "text": "Why?",
            "role": "prompter",
            "replies": [{"text": "Because.", "role": "assistant", "replies": [second]}],
        }
    }
    found = items(tree)
    [pair] = [one for one in found if isinstance(one, Preference)]
    assert pair.prompt == [*Q, A, {"role": "user", "content": "And then?"}]
    assert (pair.chosen, pair.rejected) == ("y", "x")
    assert [one.messages[-1]["content"] for one in found if isinstance(one, Demonstration)] == [
        "Because.",
        "y",
    ]


def test_a_tree_of_two_assistants_in_a_row_is_refused() -> None:
    tree = {
        "text": "Why?",
        "role": "prompter",
        "replies": [
            {"text": "a", "role": "assistant", "replies": [{"text": "b", "role": "assistant", "replies": []}]}
        ],
    }
    with pytest.raises(RowError, match=r"replies\[0\]\.replies\[0\]\.role' must be the user's turn"):
        items(tree)


def test_an_unknown_layout_shows_the_row_and_every_shape() -> None:
    with pytest.raises(DataError) as caught:
        recognised({"left": "a", "right": 2})
    assert "left: text 'a'" in str(caught.value)
    assert "right: number 2" in str(caught.value)
    for shape in SHAPES:
        assert f"{shape.name}: {shape.needs}" in str(caught.value)


def test_every_shape_is_found_by_its_name() -> None:
    assert all(named(shape.name) is shape for shape in SHAPES)
    assert named("nothing") is None
