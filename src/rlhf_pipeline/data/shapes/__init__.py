"""The registry of known shapes and the recognition of a source's shape from its first row.

A shape is recognised once per file and then holds for every row of it: a row that departs from it is
an error, never a reason to guess again.
"""

from __future__ import annotations

from ...errors import DataError
from ..fields import shown
from ..items import RawRow
from . import pairs, ranked, single, trees
from .base import Shape

__all__ = ["SHAPES", "Shape", "named", "recognise"]

# Most specific first: the first that recognises a row wins.
SHAPES: tuple[Shape, ...] = (*trees.SHAPES, *ranked.SHAPES, *pairs.SHAPES, *single.SHAPES)


def named(kind: str) -> Shape | None:
    """The shape of a name, or None."""
    return next((shape for shape in SHAPES if shape.name == kind), None)


def recognise(row: RawRow) -> Shape:
    """The shape of a row.

    Raises:
        DataError: showing the row's columns and every shape that was tried.
    """
    for shape in SHAPES:
        if shape.recognises(row.values):
            return shape
    columns = (
        "\n".join(f"    {name}: {shown(value)}" for name, value in row.values.items()) or "    (no columns)"
    )
    tried = "\n".join(f"    {shape.name}: {shape.needs}" for shape in SHAPES)
    raise DataError(
        f"{row.place}: no known shape fits these columns\n{columns}\n  shapes tried:\n{tried}\n"
        "  name the columns with kind: mapping and a mapping (docs/data.md)"
    )
