"""Marks rows whose text is not UTF-8, lone surrogates included: no other check can read those.

DuckDB looks at every text once; only where it stumbles are the rows searched for, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ... import paths
from .engine import DuckDBEngine
from .relations import quoted

NAME = "encoding"
EVERY_VALUE = "bit_xor(hash(COLUMNS(*)))"
"""An aggregate that reads whole values; a length alone would not have them decoded."""


def find(engine: DuckDBEngine, prepared: Path) -> str:
    """Read every text; returns the SELECT of all rows with their `problem`, null where the text is valid."""
    rows = " UNION ALL ".join(f'SELECT home, split, row, prompt_id FROM "{table}"' for table in paths.TABLES)
    found = ", ".join(
        f"({quoted(table)}, {quoted(split)}, {row}, {quoted(problem)})"
        for table in paths.TABLES
        if not _is_readable(engine, table)
        for split, row, problem in _invalid(prepared, table)
    )
    if not found:
        return f"SELECT *, NULL::VARCHAR AS problem FROM ({rows})"
    marked = f"(VALUES {found}) AS marked(home, split, row, problem)"
    return f"SELECT * FROM ({rows}) LEFT JOIN {marked} USING (home, split, row)"


def _is_readable(engine: DuckDBEngine, table: str) -> bool:
    try:
        engine.records(f'SELECT {EVERY_VALUE} FROM "{table}"')
    except duckdb.InvalidInputException:
        return False
    return True


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
