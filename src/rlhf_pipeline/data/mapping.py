"""kind: mapping, for layouts that no shape knows: target field -> column name or JMESPath expression.

The mapped fields form a row that an ordinary shape converts: prompt/chosen/rejected, prompt/response,
prompt/ground_truth or messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import DataError
from .items import Raw, RowError

TARGETS = (
    "prompt",
    "chosen",
    "rejected",
    "margin",
    "completion",
    "ground_truth",
    "messages",
    "responses",
    "scores",
    "ranks",
)

OPTIONAL = ("margin", "ground_truth")


class Mapper:
    """Applies one mapping to raw rows.

    Raises:
        DataError: at construction, for an unknown target.
    """

    def __init__(self, mapping: Mapping[str, str], source: str) -> None:
        unknown = sorted(set(mapping) - set(TARGETS))
        if unknown:
            raise DataError(
                f"data.sources ({source}).mapping: unknown field {', '.join(unknown)};"
                f" known: {', '.join(TARGETS)}"
            )
        self._paths = {target: (path, _compiled(path)) for target, path in mapping.items()}

    def __call__(self, row: Raw) -> dict[str, Any]:
        """The mapped row; a column of exactly the path's name wins over the expression.

        Raises:
            RowError: when a path finds nothing in the row.
        """
        mapped = {}
        for target, (path, compiled) in self._paths.items():
            found = row[path] if path in row else _searched(compiled, row, f"mapping.{target}")
            if found is None and target not in OPTIONAL:
                raise RowError(
                    f"mapping.{target}: {path!r} finds nothing; the row has"
                    f" {', '.join(map(repr, row)) or 'no columns'}"
                )
            mapped[target] = found
        return mapped


def _compiled(path: str) -> Any:
    """The JMESPath expression, or None for a plain column name that is not one (`prediction 1`)."""
    import jmespath

    try:
        return jmespath.compile(path)
    except jmespath.exceptions.JMESPathError:
        return None


def _searched(compiled: Any, row: Raw, where: str) -> Any:
    import jmespath

    try:
        return None if compiled is None else compiled.search(dict(row))
    except jmespath.exceptions.JMESPathError as error:
        raise RowError(f"{where}: fails on this row: {error}") from None
