"""What a shape is: a name, how it recognises a row, and what it makes of one.

Shapes are pure: a raw row and the source's options in, items out, `RowError` for a row that does not
fit. The registry is in shapes/__init__.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..items import Item, Options, Raw


@dataclass(frozen=True, slots=True)
class Shape:
    """A known layout of a data set's rows."""

    name: str
    """The `kind` that asks for it in params.yaml."""
    needs: str
    """What a row must hold, for the error that lists the shapes tried."""
    recognises: Callable[[Raw], bool]
    """Whether a row looks like this shape, judged by its columns and their types."""
    convert: Callable[[Raw, Options], list[Item]]
    """The items of one row; an empty list for a row that holds no decision (a tie)."""
    options: frozenset[str] = field(default_factory=frozenset)
    """Keys of `data.sources[].options` that the shape reads."""


def has_text(row: Raw, *columns: str) -> bool:
    """Whether each column is there and holds text or null (null is reported later, by name)."""
    return all(column in row and (row[column] is None or isinstance(row[column], str)) for column in columns)


def first_of(row: Raw, *columns: str) -> str | None:
    """The first of several column names that the row has."""
    return next((column for column in columns if column in row), None)
