"""Reads JSON (a list of objects) and JSON Lines, strictly: duplicate keys and damaged rows are errors.

JSON Lines stream; a JSON list is held in memory whole, so large sets belong in JSON Lines or Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..fields import shown
from ..items import Options, Place, RawRow
from .streams import decoded, lines, open_bytes, without_bom

WRAPPERS = ("data", "rows", "examples", "records", "items", "train")
"""Names under which files keep their list of rows."""


def read_lines(path: Path, label: str, options: Options) -> Iterator[RawRow]:
    """One object per line; `label` is the file's name in messages."""
    for number, line in lines(path):
        place = Place(label, number)
        yield RawRow(place, _object(_parsed(decoded(line, str(place)), str(place)), place))


def read_list(path: Path, label: str, options: Options) -> Iterator[RawRow]:
    """A list of objects, or an object with the list under one of `WRAPPERS`, or one object per line."""
    if _is_lines(path):
        yield from read_lines(path, label, options)
        return
    with open_bytes(path) as file:
        content = without_bom(file.read(), path)
    found = _parsed(decoded(content, label), label)
    if isinstance(found, dict):
        found = next((found[name] for name in WRAPPERS if isinstance(found.get(name), list)), found)
    if not isinstance(found, list):
        raise DataError(f"{label}: must hold a list of rows, got {shown(found)}")
    for number, one in enumerate(found, start=1):
        place = Place(label, number)
        yield RawRow(place, _object(one, place))


def _is_lines(path: Path) -> bool:
    """Whether the first line alone is a whole object, and not one that wraps the list of rows."""
    for _, line in lines(path):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(found, dict) and not any(isinstance(found.get(name), list) for name in WRAPPERS)
    return False


def _object(found: Any, place: Place) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise DataError(f"{place}: must be an object with named columns, got {shown(found)}")
    return found


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except _DuplicateKey as error:
        raise DataError(f"{where}: the key {error.args[0]!r} stands twice in one object") from None
    except RecursionError:
        raise DataError(f"{where}: is nested too deeply to be a row of text") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise DataError(f"{where}: is not JSON: {error.msg} at {at}") from None
    except ValueError as error:
        raise DataError(f"{where}: is not JSON: {error}") from None


class _DuplicateKey(Exception):
    """A key that stands twice in one object, where a later value would win in silence."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise _DuplicateKey(next(key for key in keys if keys.count(key) > 1))
    return found
