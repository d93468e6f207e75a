"""Shapes that rank or score several responses to one prompt: votes, pairwise labels, scores, ranks.

Every strict comparison becomes a pair; ties make none. The best response is the demonstration.
"""

from __future__ import annotations

import re
from itertools import combinations

from ..fields import as_number, as_text, number, prompt_of, shown, text, value
from ..items import Item, Message, Options, Preference, Prompt, Raw, RowError, demonstration, from_pair, user
from .base import Shape, first_of
from .pairs import PROMPT_COLUMNS

ANNOTATOR = re.compile(r"annotator_?\d+")
QA_PAIRS = ((1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4))


def instruction_prompt(row: Raw) -> list[Message]:
    """The instruction, and the input below it when there is one."""
    instruction, extra = text(row, "instruction"), text(row, "input", optional=True)
    return user(f"{instruction}\n\n{extra}" if extra.strip() else instruction)


def _is_votes(row: Raw) -> bool:
    return {"instruction", "response1", "response2"} <= row.keys() and any(map(ANNOTATOR.fullmatch, row))


def _votes(row: Raw, options: Options) -> list[Item]:
    votes = [_vote(row, column) for column in row if ANNOTATOR.fullmatch(column)]
    first, second = votes.count(1), votes.count(2)
    # A majority of all annotators, ties counted: 1-0-0 is no decision.
    if 2 * max(first, second) <= len(votes):
        return []
    responses = [text(row, "response1"), text(row, "response2")]
    chosen, rejected = responses if first > second else responses[::-1]
    return from_pair(instruction_prompt(row), chosen, rejected, abs(first - second) / len(votes))


def _vote(row: Raw, column: str) -> int:
    vote = number(row, column)
    if vote not in (0, 1, 2):
        raise RowError(f"column {column!r} must hold 0 (tie), 1 or 2, got {shown(row[column])}")
    return int(vote)


def _is_qa_feedback(row: Raw) -> bool:
    return {"question", "preference", *(f"prediction {i}" for i in range(1, 5))} <= row.keys()


def _qa_feedback(row: Raw, options: Options) -> list[Item]:
    labels = value(row, "preference")
    if not isinstance(labels, list) or len(labels) != len(QA_PAIRS):
        raise RowError(f"column 'preference' must list {len(QA_PAIRS)} labels, got {shown(labels)}")
    responses = {i: text(row, f"prediction {i}") for i in range(1, 5)}
    prompt = user(_with_passages(row, options.get("max_passages")))
    items: list[Item] = []
    wins = dict.fromkeys(responses, 0)
    for (a, b), label in zip(QA_PAIRS, labels, strict=True):
        if isinstance(label, bool) or label not in (0, 1, 2):
            raise RowError(f"column 'preference' must hold 0 (tie), 1 or 2, got {shown(label)}")
        if label:
            better, worse = (a, b) if label == 1 else (b, a)
            wins[better] += 1
            items.append(Preference(prompt, responses[better], responses[worse]))
    if items:
        best = max(wins, key=lambda one: wins[one])
        items += [
            demonstration(prompt, responses[best]),
            Prompt(prompt, text(row, "gold", optional=True), "model", "qa"),
        ]
    return items


def _with_passages(row: Raw, limit: object) -> str:
    question = text(row, "question")
    passages = row.get("passages") or []
    if not isinstance(passages, list):
        raise RowError(f"column 'passages' must hold a list, got {shown(passages)}")
    kept = passages if limit is None else passages[: int(as_number(limit, "options.max_passages"))]
    blocks = [
        "\n".join(as_text(line, f"passages[{n}]") for line in (block if isinstance(block, list) else [block]))
        for n, block in enumerate(kept)
    ]
    return "\n\n".join([*blocks, question])


RESPONSES = ("responses", "answers", "completions", "candidates")
SCORES = ("scores", "ratings", "rewards")
RANKS = ("ranks", "ranking", "rank")


def _is_ranked(row: Raw) -> bool:
    column = first_of(row, *RESPONSES)
    if column is None or first_of(row, *PROMPT_COLUMNS) is None or not isinstance(row[column], list):
        return False
    return first_of(row, *SCORES, *RANKS) is not None or _are_graded(row[column])


def _are_graded(responses: list[object]) -> bool:
    return (
        bool(responses)
        and isinstance(responses[0], dict)
        and first_of(responses[0], "score", "rank", "rating") is not None
    )


def _ranked(row: Raw, options: Options) -> list[Item]:
    prompt_column, column = first_of(row, *PROMPT_COLUMNS), first_of(row, *RESPONSES)
    if prompt_column is None or column is None:
        raise RowError(
            f"a prompt and a list of responses are needed; the row has {', '.join(map(repr, row))}"
        )
    found = value(row, column)
    if not isinstance(found, list) or not found:
        raise RowError(f"column {column!r} must hold a non-empty list of responses, got {shown(found)}")
    responses, grades = _graded(row, column, found)
    return pairs_of(prompt_of(row, prompt_column), responses, grades)


def _graded(row: Raw, column: str, found: list[object]) -> tuple[list[str], list[float]]:
    """Responses and grades (higher is better, whether given as scores or as ranks from the best)."""
    if _are_graded(found):
        responses, grades = [], []
        for n, one in enumerate(found):
            where = f"{column}[{n}]"
            if not isinstance(one, dict):
                raise RowError(f"column {where!r} must hold an object with text and score, got {shown(one)}")
            name, key = (
                first_of(one, "text", "content", "response", "answer"),
                first_of(one, "score", "rating", "rank"),
            )
            if name is None or key is None:
                raise RowError(f"column {where!r} must hold text and score (or rank), got {shown(one)}")
            responses.append(as_text(one[name], f"{where}.{name}"))
            grade = as_number(one[key], f"{where}.{key}")
            grades.append(-grade if key == "rank" else grade)
        return responses, grades
    key = first_of(row, *SCORES, *RANKS)
    if key is None:
        raise RowError(
            f"column {column!r} has no grades: add 'scores' (higher is better) or 'ranks' (1 is best)"
        )
    listed = value(row, key)
    if not isinstance(listed, list) or len(listed) != len(found):
        raise RowError(
            f"column {key!r} must list one number per response ({len(found)}), got {shown(listed)}"
        )
    sign = -1.0 if key in RANKS else 1.0
    return (
        [as_text(one, f"{column}[{n}]") for n, one in enumerate(found)],
        [sign * as_number(one, f"{key}[{n}]") for n, one in enumerate(listed)],
    )


def pairs_of(prompt: list[Message], responses: list[str], grades: list[float]) -> list[Item]:
    """All strict comparisons of graded responses, the best one as demonstration, and the prompt."""
    items: list[Item] = []
    for a, b in combinations(range(len(responses)), 2):
        if grades[a] != grades[b]:
            better, worse = (a, b) if grades[a] > grades[b] else (b, a)
            items.append(
                Preference(prompt, responses[better], responses[worse], grades[better] - grades[worse])
            )
    if responses:
        best = max(range(len(responses)), key=lambda one: grades[one])
        items += [demonstration(prompt, responses[best]), Prompt(prompt, "", "model", "general")]
    return items


SHAPES = (
    Shape(
        "pandalm",
        "instruction, input, response1, response2 and annotator1, annotator2, ... (0 tie, 1, 2)",
        _is_votes,
        _votes,
    ),
    Shape(
        "qa_feedback",
        "question, passages, 'prediction 1' to 'prediction 4' and preference (six labels 0, 1, 2)",
        _is_qa_feedback,
        _qa_feedback,
        frozenset({"max_passages"}),
    ),
    Shape(
        "ranked",
        "a prompt with responses and scores (higher is better) or ranks (1 is best)",
        _is_ranked,
        _ranked,
    ),
)
