"""Reads Parquet (single, sharded, hive-partitioned) and Arrow IPC files, batch by batch.

Strings are checked to be UTF-8 before they become Python text; columns keep their types. Column
differences between the shards of one source are an error that names both files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from ...errors import DataError
from ..items import Options, Place, RawRow
from .streams import FREE_BYTES, MIB

BATCH_ROWS = 256
MAX_EXPANSION = 2000
"""Dictionaries store a repeated text once, so files of honest text may expand far; bombs go further."""
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises on damaged files; the last for column names that are not text."""


def read_parquet(path: Path, label: str, options: Options) -> Iterator[RawRow]:
    """The rows of one Parquet file."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            yield from _rows(_guarded(file.iter_batches(batch_size=BATCH_ROWS), path), label)
    except UNREADABLE as error:
        raise DataError(f"{label}: not a readable Parquet file ({_first_line(error)})") from None


def read_arrow(path: Path, label: str, options: Options) -> Iterator[RawRow]:
    """The rows of one Arrow IPC file (Feather version 2) or stream."""
    try:
        with pa.memory_map(str(path)) as source:
            try:
                file = pyarrow.ipc.open_file(source)
                batches: Any = (file.get_batch(i) for i in range(file.num_record_batches))
            except pa.ArrowInvalid:
                source.seek(0)
                batches = pyarrow.ipc.open_stream(source)
            yield from _rows(_guarded(batches, path), label)
    except UNREADABLE as error:
        raise DataError(f"{label}: not a readable Arrow file ({_first_line(error)})") from None


def _guarded(batches: Iterator[pa.RecordBatch], path: Path) -> Iterator[pa.RecordBatch]:
    """The batches, until they add up to more than a file of text of this size could hold."""
    allowed, total = max(FREE_BYTES, MAX_EXPANSION * path.stat().st_size), 0
    for batch in batches:
        total += batch.nbytes
        if total > allowed:
            raise DataError(
                f"{path}: expands to more than {MAX_EXPANSION} times its size ({total / MIB:.0f} MiB so far);"
                " refused as a decompression bomb"
            )
        yield batch


def _rows(batches: Iterator[pa.RecordBatch], label: str) -> Iterator[RawRow]:
    number = 0
    for batch in batches:
        _check_utf8(batch, label, number)
        for values in batch.to_pylist():
            number += 1
            yield RawRow(Place(label, number), values)


def _check_utf8(batch: pa.RecordBatch, label: str, before: int) -> None:
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for row in range(batch.num_rows):
                try:
                    column.slice(row, 1).validate(full=True)
                    column[row].as_py()
                except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                    raise DataError(
                        f"{Place(label, before + row + 1)}: column {name!r} is not valid"
                        f" ({_first_line(error)})"
                    ) from None
        raise


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
