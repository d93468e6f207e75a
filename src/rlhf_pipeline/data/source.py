"""One source of params.yaml as a stream of items: files, shape, mapping, set-aside rows, sampling.

Yields items in the order of the files; what was recognised and what was left out is counted in
`SourceCounts`. Tables and splits are prepare.py's job.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from ..errors import DataError
from ..params.common import Source
from . import readers, shapes
from .fields import shown
from .items import Item, Options, Place, RawRow, RowError
from .mapping import Mapper

SOURCE_OPTIONS = frozenset({"bad_rows", "tables"}) | readers.OPTIONS


@dataclass(frozen=True, slots=True)
class SetAside:
    """A raw row that its shape could not convert, kept for the report."""

    source: str
    file: str
    row: int
    reason: str
    excerpt: str


@dataclass(slots=True)
class SourceCounts:
    """What became of a source's raw rows."""

    shape: str = ""
    files: int = 0
    rows: int = 0
    undecided: int = 0
    """Rows without a decision (ties): they make no pair."""
    sampled_out: int = 0
    """Rows left out by weight or limit."""
    set_aside: list[SetAside] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RowItems:
    """The items of one raw row, and how often they go into the training split."""

    items: list[Item]
    repeats: int


def read_source(source: Source, raw: Path, counts: SourceCounts) -> Iterator[RowItems]:
    """The items of every raw row that weight and limit keep.

    Raises:
        DataError: for files that cannot be read, rows that no shape fits, or, unless
            `options.bad_rows` is set_aside, the first row that departs from its shape.
    """
    converted = _converted(source, raw, counts)
    if source.limit is not None:
        converted = _smallest(converted, source.limit, counts)
    for fraction, items in converted:
        repeats = int(source.weight) + (fraction < source.weight % 1)
        if repeats:
            yield RowItems(items, repeats)
        else:
            counts.sampled_out += 1


def _converted(source: Source, raw: Path, counts: SourceCounts) -> Iterator[tuple[float, list[Item]]]:
    options = _options(source)
    set_aside = options.get("bad_rows", "stop") == "set_aside"
    is_sampled = source.limit is not None or source.weight != 1.0
    mapper = Mapper(source.mapping or {}, source.name) if source.kind == "mapping" else None
    for rows in _files(source, raw, options):
        counts.files += 1
        first = next(rows, None)
        if first is None:
            continue
        shape = _shape(source, first, mapper, counts)
        for row in chain([first], rows):
            counts.rows += 1
            try:
                items = shape.convert(mapper(row.values) if mapper else row.values, options)
            except RowError as error:
                if not set_aside:
                    raise DataError(f"{source.name}: {row.place}: {error}") from None
                counts.set_aside.append(_aside(source, row, error))
                continue
            if items:
                yield _fraction(source.name, items) if is_sampled else 0.0, items
            else:
                counts.undecided += 1
    if counts.rows == 0:
        raise DataError(f"{source.name}: {source.path} holds no rows")


def _files(source: Source, raw: Path, options: Options) -> Iterator[Iterator[RawRow]]:
    path = source.path or ""
    if path.startswith(readers.HUB):
        from .readers.hub import read_hub

        yield read_hub(path.removeprefix(readers.HUB), raw, options)
        return
    for file in readers.files_of(raw, path):
        yield readers.read(file, raw, options)


def _shape(source: Source, first: RawRow, mapper: Mapper | None, counts: SourceCounts) -> shapes.Shape:
    if mapper is not None:
        try:
            shape = shapes.recognise(RawRow(first.place, mapper(first.values)))
        except RowError as error:
            raise DataError(f"{source.name}: {first.place}: {error}") from None
    else:
        named = shapes.named(source.kind)
        shape = named or shapes.recognise(first)
    if counts.shape and counts.shape != shape.name:
        raise DataError(
            f"{source.name}: {first.place.file} looks like {shape.name}, the files before it like"
            f" {counts.shape}; name one kind, or make them two sources"
        )
    counts.shape = shape.name
    unknown = sorted(set(source.options or {}) - SOURCE_OPTIONS - shape.options)
    if unknown:
        known = ", ".join(sorted(SOURCE_OPTIONS | shape.options))
        raise DataError(
            f"data.sources ({source.name}).options: {', '.join(unknown)} unknown for {shape.name};"
            f" known: {known}"
        )
    return shape


def _options(source: Source) -> Options:
    options = source.options or {}
    if options.get("bad_rows", "stop") not in ("stop", "set_aside"):
        raise DataError(
            f"data.sources ({source.name}).options.bad_rows: stop or set_aside,"
            f" got {shown(options['bad_rows'])}"
        )
    return options


def _aside(source: Source, row: RawRow, error: RowError) -> SetAside:
    place: Place = row.place
    return SetAside(source.name, place.file, place.row, str(error), shown(dict(row.values)))


def _fraction(name: str, items: list[Item]) -> float:
    """A row's place in [0, 1): by the hash of what it holds, so that sampling ignores its position."""
    return int(hashlib.sha256(f"{name}:{items!r}".encode()).hexdigest()[:13], 16) / 16**13


def _smallest(
    rows: Iterator[tuple[float, list[Item]]], limit: int, counts: SourceCounts
) -> Iterator[tuple[float, list[Item]]]:
    """The `limit` rows of smallest hash, in their own order, with memory for `limit` rows."""
    kept: list[tuple[float, int, list[Item]]] = []
    for number, (fraction, items) in enumerate(rows):
        entry = (-fraction, -number, items)
        if len(kept) < limit:
            heapq.heappush(kept, entry)
        else:
            heapq.heappushpop(kept, entry)
            counts.sampled_out += 1
    for fraction, _, items in sorted(kept, key=lambda entry: -entry[1]):
        yield -fraction, items
