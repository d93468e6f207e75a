"""Shapes that already say which of two responses was preferred: prompt, chosen, rejected.

Text or messages in each place; without a prompt, the prompt is what chosen and rejected begin with
in common. Scores, votes and ranks are in ranked.py.
"""

from __future__ import annotations

import re

from ..fields import as_messages, as_text, is_messages, number, prompt_of, response_of, shown, value
from ..items import Item, Message, Options, Raw, RowError, from_pair
from .base import Shape, first_of

PROMPT_COLUMNS = ("prompt", "question", "instruction", "query")
TURN = re.compile(r"(?:^|\n\n)(Human|Assistant|System): ?")
TURN_ROLES = {"Human": "user", "Assistant": "assistant", "System": "system"}


def _margin(row: Raw) -> float | None:
    return number(row, "margin") if row.get("margin") not in (None, "") else None


def _is_pair(row: Raw) -> bool:
    return (
        first_of(row, *PROMPT_COLUMNS) is not None
        and {"chosen", "rejected"} <= row.keys()
        and not _holds_whole_conversation(row)
    )


def _holds_whole_conversation(row: Raw) -> bool:
    return any(is_messages(row.get(side)) and len(row[side]) > 1 for side in ("chosen", "rejected"))


def _pair(row: Raw, options: Options) -> list[Item]:
    column = first_of(row, *PROMPT_COLUMNS)
    if column is None:
        raise RowError(f"column 'prompt' is missing; the row has {', '.join(map(repr, row))}")
    prompt = prompt_of(row, column)
    return from_pair(prompt, response_of(row, "chosen"), response_of(row, "rejected"), _margin(row))


def _is_conversation_pair(row: Raw) -> bool:
    return {"chosen", "rejected"} <= row.keys() and _holds_whole_conversation(row)


def _conversation_pair(row: Raw, options: Options) -> list[Item]:
    sides = [as_messages(value(row, side), side) for side in ("chosen", "rejected")]
    return _from_conversations(sides[0], sides[1], _margin(row))


def _from_conversations(chosen: list[Message], rejected: list[Message], margin: float | None) -> list[Item]:
    for name, side in (("chosen", chosen), ("rejected", rejected)):
        if side[-1]["role"] != "assistant":
            raise RowError(
                f"column {name!r} must end with the assistant's message, it ends with the"
                f" {side[-1]['role']}'s"
            )
    if chosen[:-1] != rejected[:-1]:
        at = next(
            (turn for turn, (a, b) in enumerate(zip(chosen[:-1], rejected[:-1], strict=False)) if a != b),
            min(len(chosen), len(rejected)) - 1,
        )
        raise RowError(
            f"columns 'chosen' and 'rejected' part at message {at + 1}, before the last assistant message:"
            " a pair must share everything but its last response"
        )
    if len(chosen) < 2:
        raise RowError("columns 'chosen' and 'rejected' hold no prompt; add a 'prompt' column")
    return from_pair(chosen[:-1], chosen[-1]["content"], rejected[-1]["content"], margin)


def _is_transcript(text: object) -> bool:
    return isinstance(text, str) and text.lstrip("\n ").startswith(("Human:", "Assistant:", "System:"))


def _is_transcript_pair(row: Raw) -> bool:
    return first_of(row, *PROMPT_COLUMNS) is None and all(
        _is_transcript(row.get(side)) for side in ("chosen", "rejected")
    )


def transcript_turns(text: str, where: str) -> list[Message]:
    """The messages of a transcript written as "\\n\\nHuman: ...\\n\\nAssistant: ..."."""
    parts = TURN.split("\n\n" + text.lstrip("\n "))
    if len(parts) < 3 or parts[0].strip():
        raise RowError(f"column {where!r} must begin with 'Human:' or 'Assistant:', got {shown(text)}")
    return [
        {"role": TURN_ROLES[role], "content": content.strip()}
        for role, content in zip(parts[1::2], parts[2::2], strict=True)
    ]


def _transcript_pair(row: Raw, options: Options) -> list[Item]:
    sides = [transcript_turns(as_text(value(row, side), side), side) for side in ("chosen", "rejected")]
    return _from_conversations(sides[0], sides[1], _margin(row))


SHAPES = (
    Shape(
        "preference",
        "prompt (or question, instruction, query) with chosen and rejected, each text or messages",
        _is_pair,
        _pair,
    ),
    Shape(
        "preference_conversations",
        "chosen and rejected as lists of messages that share all but the last",
        _is_conversation_pair,
        _conversation_pair,
    ),
    Shape(
        "preference_transcripts",
        "chosen and rejected as 'Human: ... Assistant: ...' transcripts that share all but the last turn",
        _is_transcript_pair,
        _transcript_pair,
    ),
)
