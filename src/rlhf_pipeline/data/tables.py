"""Streams rows into the nine Parquet files of the three tables and three splits.

A table without a single row is still written, with its schema, so that every reader finds the same
layout.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import paths, records

BUFFERED_ROWS = 8192
BUFFERED_CHARACTERS = 32_000_000
"""Over all nine files; one that passes its share is written early, so long rows do not fill the memory."""
BENCHMARKS = "benchmarks.parquet"
"""Beside the tables: the prompts of evaluation sets, which must not be trained on."""


class TableWriters:
    """Context manager over `<root>/<table>/<split>.parquet`; rows are checked against records.SCHEMAS."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._writers: dict[tuple[str, str], pq.ParquetWriter] = {}
        self._buffers: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self._characters: dict[tuple[str, str], int] = {}
        self._rows: dict[str, int] = dict.fromkeys(paths.TABLES, 0)

    def __enter__(self) -> TableWriters:
        for table in paths.TABLES:
            for split in paths.SPLITS:
                path = paths.table(self._root, table, split)
                path.parent.mkdir(parents=True, exist_ok=True)
                self._writers[table, split] = pq.ParquetWriter(
                    path, records.SCHEMAS[table], compression="zstd"
                )
                self._buffers[table, split] = []
                self._characters[table, split] = 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for (table, split), writer in self._writers.items():
            if kind is None:
                self._flush(table, split)
            writer.close()

    def add(self, table: str, split: str, values: dict[str, Any]) -> None:
        """Append one row."""
        buffer = self._buffers[table, split]
        buffer.append(values)
        self._rows[table] += 1
        self._characters[table, split] += _characters(values)
        is_long = self._characters[table, split] * len(self._buffers) >= BUFFERED_CHARACTERS
        if is_long or len(buffer) >= BUFFERED_ROWS:
            self._flush(table, split)

    def rows(self) -> dict[str, int]:
        """Rows added so far, per table."""
        return dict(self._rows)

    def _flush(self, table: str, split: str) -> None:
        buffer = self._buffers[table, split]
        if buffer:
            self._writers[table, split].write_table(pa.Table.from_pylist(buffer, records.SCHEMAS[table]))
            buffer.clear()
            self._characters[table, split] = 0


def _characters(values: dict[str, Any]) -> int:
    """Roughly how much text a row holds."""
    texts = (one for one in values.values() if isinstance(one, str))
    messages = values.get("messages") or values.get("prompt") or []
    return sum(map(len, texts)) + sum(len(message["content"]) for message in messages)
