"""Typed access to the columns of a raw row, with errors that name the column and what stood in it.

Values are never converted in silence: a number or a boolean where text belongs is an error, null is
an error, and nothing is trimmed (empty text is validate_data's business).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .items import Message, Raw, RowError

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "tool": "tool",
}
EXCERPT_CHARACTERS = 120


def shown(value: Any) -> str:
    """A value as an error message shows it: its type and a short excerpt."""
    if value is None:
        return "null"
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("utf-8", "backslashreplace").decode()
    short = text if len(text) <= EXCERPT_CHARACTERS else text[:EXCERPT_CHARACTERS] + "..."
    return f"{_type_name(value)} {short!r}" if isinstance(value, str) else f"{_type_name(value)} {short}"


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, Mapping):
        return "object"
    return "list" if isinstance(value, Sequence) and not isinstance(value, bytes) else type(value).__name__


def value(row: Raw, column: str) -> Any:
    """The value of a column that must be there.

    Raises:
        RowError: when the row has no such column.
    """
    if column not in row:
        raise RowError(
            f"column {column!r} is missing; the row has {', '.join(map(repr, row)) or 'no columns'}"
        )
    return row[column]


def text(row: Raw, column: str, optional: bool = False) -> str:
    """The text of a column; "" for a null or absent one when `optional`.

    Raises:
        RowError: for null, numbers, booleans, lists, or text that UTF-8 cannot hold.
    """
    if optional and row.get(column) is None:
        return ""
    return as_text(value(row, column), column)


def as_text(found: Any, where: str) -> str:
    """`found` if it is text that UTF-8 can hold; `where` names it in the error."""
    if not isinstance(found, str):
        raise RowError(f"column {where!r} must hold text, got {shown(found)}")
    if not found.isascii():
        try:
            found.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RowError(
                f"column {where!r} holds a lone surrogate ({found[error.start]!a}) at character"
                f" {error.start}, which no UTF-8 file can store; repair the source's encoding"
            ) from None
    return found if type(found) is str else str(found)


class Cell(str):
    """Text from a file format without types, where a number can only be told from text by its use."""

    __slots__ = ()


def number(row: Raw, column: str, optional: bool = False) -> float:
    """A finite number.

    Raises:
        RowError: for null, NaN, infinity, booleans and text.
    """
    return as_number(row.get(column) if optional else value(row, column), column)


def as_number(found: Any, where: str) -> float:
    """`found` if it is a finite number that a double can hold."""
    if isinstance(found, Cell):
        try:
            found = float(found)
        except ValueError:
            raise RowError(f"column {where!r} must hold a number, got {shown(found)}") from None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise RowError(f"column {where!r} must hold a number, got {shown(found)}")
    try:
        result = float(found)
    except OverflowError:
        raise RowError(f"column {where!r} holds an integer of {len(str(found))} digits, too large") from None
    if not math.isfinite(result):
        raise RowError(f"column {where!r} must hold a finite number, got {result}")
    return result


def messages(row: Raw, column: str) -> list[Message]:
    """A conversation: a non-empty list of {role, content} (or {from, value}), roles in our names."""
    return as_messages(value(row, column), column)


def as_messages(found: Any, where: str) -> list[Message]:
    """`found` as messages; `where` names it in the error."""
    if not isinstance(found, Sequence) or isinstance(found, str | bytes) or not found:
        raise RowError(f"column {where!r} must hold a non-empty list of messages, got {shown(found)}")
    return [_message(one, f"{where}[{number}]") for number, one in enumerate(found)]


def _message(found: Any, where: str) -> Message:
    if not isinstance(found, Mapping):
        raise RowError(f"column {where!r} must hold a message with role and content, got {shown(found)}")
    keys = ("from", "value") if "from" in found and "role" not in found else ("role", "content")
    for key in keys:
        if key not in found:
            raise RowError(f"column {where!r} has no {key!r}; a message needs role and content")
    role = as_text(found[keys[0]], f"{where}.{keys[0]}")
    if role.lower() not in ROLES:
        raise RowError(
            f"column '{where}.{keys[0]}' holds an unknown role {role!r}; known: {', '.join(sorted(ROLES))}"
        )
    return {"role": ROLES[role.lower()], "content": as_text(found[keys[1]], f"{where}.{keys[1]}")}


def is_messages(found: Any) -> bool:
    """Whether a value looks like a conversation (a list whose first entry has a role)."""
    return (
        isinstance(found, Sequence)
        and not isinstance(found, str | bytes)
        and len(found) > 0
        and isinstance(found[0], Mapping)
        and ({"role", "content"} <= found[0].keys() or {"from", "value"} <= found[0].keys())
    )


def prompt_of(row: Raw, column: str) -> list[Message]:
    """A prompt given as text (one user message) or as messages that end with the user's turn."""
    found = value(row, column)
    if isinstance(found, str):
        return [{"role": "user", "content": as_text(found, column)}]
    prompt = as_messages(found, column)
    if prompt[-1]["role"] == "assistant":
        raise RowError(f"column {column!r} must end with a user message, it ends with the assistant's")
    return prompt


def response_of(row: Raw, column: str) -> str:
    """A response given as text, or as a list of exactly one assistant message."""
    found = value(row, column)
    if isinstance(found, str):
        return as_text(found, column)
    if is_messages(found):
        turns = as_messages(found, column)
        if len(turns) == 1 and turns[0]["role"] == "assistant":
            return turns[0]["content"]
        raise RowError(f"column {column!r} must hold one assistant message, got {len(turns)} messages")
    raise RowError(f"column {column!r} must hold text or one assistant message, got {shown(found)}")
