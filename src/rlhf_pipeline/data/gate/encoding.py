"""Finds rows whose text is not UTF-8, lone surrogates included: no check can read past those.

Reads every text in Python, so it is asked only after a scan has stumbled.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ... import paths
from .relations import quoted

NAME = "encoding"


def find(prepared: Path) -> str | None:
    """The SELECT of all rows with their `problem`, null where the text is valid; None when all of it is."""
    found = ", ".join(
        f"({quoted(table)}, {quoted(split)}, {row}, {quoted(problem)})"
        for table in paths.TABLES
        for split, row, problem in _invalid(prepared, table)
    )
    if not found:
        return None
    rows = " UNION ALL ".join(f'SELECT home, split, row, prompt_id FROM "{table}"' for table in paths.TABLES)
    marked = f"(VALUES {found}) AS marked(home, split, row, problem)"
    return f"SELECT * FROM ({rows}) LEFT JOIN {marked} USING (home, split, row)"


def _invalid(prepared: Path, table: str) -> Iterator[tuple[str, int, str]]:
    """Split, row and problem of every row with a column that is not UTF-8."""
    for split in paths.SPLITS:
        start = 0
        with pq.ParquetFile(paths.table(prepared, table, split)) as file:
            for batch in file.iter_batches():
                broken = [name for name in batch.schema.names if not _is_valid(batch[name])]
                for row in range(batch.num_rows) if broken else ():
                    names = [name for name in broken if not _is_valid(batch[name].slice(row, 1))]
                    if names:
                        yield split, start + row, f"{', '.join(names)} is not valid UTF-8"
                start += batch.num_rows


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
