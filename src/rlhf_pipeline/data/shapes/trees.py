"""Shapes that hold many responses inside one row: trees of ranked replies, columns of graded solutions.

The walk is iterative, so that no depth of nesting can exhaust the stack.
"""

from __future__ import annotations

from ..fields import ROLES, as_number, as_text, prompt_of, shown, text
from ..items import Item, Message, Options, Raw, RowError, demonstration
from .base import Shape, first_of
from .ranked import pairs_of

TEXTS = ("text", "content")
REPLIES = ("replies", "children")
CORRECT = ("is_correct", "correct")
SOLUTIONS = ("solution", "response", "text")


def _is_tree(row: Raw) -> bool:
    root = row.get("prompt")
    return _is_node(root) or _is_node(row)


def _is_node(found: object) -> bool:
    return isinstance(found, dict) and all(first_of(found, *names) for names in (TEXTS, REPLIES))


def _tree(row: Raw, options: Options) -> list[Item]:
    root = row["prompt"] if _is_node(row.get("prompt")) else row
    items: list[Item] = []
    waiting: list[tuple[object, list[Message], str]] = [(root, [], "prompt")]
    while waiting:
        node, before, where = waiting.pop()
        if not isinstance(node, dict):
            raise RowError(f"column {where!r} must hold a message with replies, got {shown(node)}")
        said = _message(node, before, where)
        replies = [reply for reply in _replies(node, where) if not _is_deleted(reply)]
        conversation = [*before, said]
        if said["role"] == "user" and replies:
            items += _of_replies(conversation, replies, where)
        waiting += [(reply, conversation, f"{where}.replies[{n}]") for n, reply in enumerate(replies)]
    return items


def _message(node: Raw, before: list[Message], where: str) -> Message:
    column = first_of(node, *TEXTS) or TEXTS[0]
    expected = "assistant" if before and before[-1]["role"] == "user" else "user"
    role = ROLES.get(as_text(node.get("role", expected), f"{where}.role").lower())
    if role != expected:
        raise RowError(f"column '{where}.role' must be the {expected}'s turn, got {shown(node.get('role'))}")
    return {"role": role, "content": as_text(node.get(column), f"{where}.{column}")}


def _replies(node: Raw, where: str) -> list[object]:
    found = node.get(first_of(node, *REPLIES) or REPLIES[0]) or []
    if not isinstance(found, list):
        raise RowError(f"column '{where}.replies' must hold a list, got {shown(found)}")
    return found


def _is_deleted(reply: object) -> bool:
    return isinstance(reply, dict) and bool(reply.get("deleted"))


def _of_replies(prompt: list[Message], replies: list[object], where: str) -> list[Item]:
    """Pairs of the ranked replies; a prompt with one reply gives a demonstration only."""
    responses, grades = [], []
    for n, reply in enumerate(replies):
        place = f"{where}.replies[{n}]"
        if not isinstance(reply, dict):
            raise RowError(f"column {place!r} must hold a message, got {shown(reply)}")
        key = first_of(reply, "rank", "score")
        if key is not None and reply[key] is not None:
            grade = as_number(reply[key], f"{place}.{key}")
            responses.append(as_text(reply.get(first_of(reply, *TEXTS) or TEXTS[0]), f"{place}.text"))
            grades.append(-grade if key == "rank" else grade)
    if responses:
        return pairs_of(prompt, responses, grades)
    only = replies[0]
    if len(replies) == 1 and isinstance(only, dict):
        said = only.get(first_of(only, *TEXTS) or TEXTS[0])
        return [demonstration(prompt, as_text(said, f"{where}.replies[0].text"))]
    return []


def _graded_columns(row: Raw) -> list[str]:
    return [
        name
        for name, found in row.items()
        if isinstance(found, dict) and first_of(found, *CORRECT) and first_of(found, *SOLUTIONS)
    ]


def _is_graded(row: Raw) -> bool:
    return first_of(row, "question", "prompt") is not None and len(_graded_columns(row)) > 1


def _graded(row: Raw, options: Options) -> list[Item]:
    prompt = prompt_of(row, first_of(row, "question", "prompt") or "question")
    responses, grades = [], []
    for name in _graded_columns(row):
        column = row[name]
        key = first_of(column, *CORRECT) or CORRECT[0]
        verdict = column[key]
        if not isinstance(verdict, bool):
            raise RowError(f"column '{name}.{key}' must hold true or false, got {shown(verdict)}")
        responses.append(text(column, first_of(column, *SOLUTIONS) or SOLUTIONS[0]))
        grades.append(float(verdict))
    if len(set(grades)) == 1 and not grades[0]:
        return []
    return pairs_of(prompt, responses, grades)


SHAPES = (
    Shape(
        "reply_tree",
        "prompt (or the row itself) with text and replies: text, rank (0 is best) or score, replies",
        _is_tree,
        _tree,
    ),
    Shape(
        "graded_solutions",
        "question and several columns that each hold {is_correct, solution}",
        _is_graded,
        _graded,
    ),
)
