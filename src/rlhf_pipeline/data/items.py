"""What a shape makes of one raw row: preferences, demonstrations and prompts, before they become tables.

Plain Python values with the place they came from. Reading files is readers/'s job, recognising
columns is shapes/'s, writing tables is prepare.py's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import DataError

Message = dict[str, str]
Raw = Mapping[str, Any]
Options = Mapping[str, Any]
"""`options` of a source in params.yaml."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a raw row stands: the file and the row in it, counted from 1."""

    file: str
    row: int

    def __str__(self) -> str:
        return f"{self.file}, row {self.row}"


@dataclass(frozen=True, slots=True)
class Preference:
    """One comparison: `chosen` was preferred to `rejected` as the answer to `prompt`."""

    prompt: list[Message]
    chosen: str
    rejected: str
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One conversation to imitate; its last message is the assistant's."""

    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt for reinforcement learning; `style` is rule (ground truth checked) or model."""

    prompt: list[Message]
    ground_truth: str
    style: str
    ability: str


Item = Preference | Demonstration | Prompt


class RowError(DataError):
    """A row that does not hold what its shape needs: the column, what stood there, what was expected."""


@dataclass(frozen=True, slots=True)
class RawRow:
    place: Place
    values: Raw


RawRows = Iterator[RawRow]


def from_pair(prompt: list[Message], chosen: str, rejected: str, margin: float | None = None) -> list[Item]:
    """A comparison, its chosen response as a demonstration, and its prompt without a ground truth."""
    return [
        Preference(prompt, chosen, rejected, margin),
        demonstration(prompt, chosen),
        Prompt(prompt, "", "model", "general"),
    ]


def demonstration(prompt: list[Message], response: str) -> Demonstration:
    """The prompt followed by the assistant's response."""
    return Demonstration([*prompt, {"role": "assistant", "content": response}])


def user(text: str) -> list[Message]:
    """A prompt of one user message."""
    return [{"role": "user", "content": text}]
