"""The prepared files themselves as a relation: one row each, with what is wrong with their schema.

Reads Parquet footers only. Whether their text is UTF-8 is encoding.py's question.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ... import paths, records
from ...errors import DataError
from .relations import quoted

NAME = "files"


def relation(prepared: Path) -> str:
    """The SELECT of all files: home, split, row (0), prompt_id (the path), problem."""
    rows = ", ".join(
        f"({quoted(table)}, {quoted(split)}, 0, {quoted(str(path))},"
        f" {quoted(problem) if problem else 'NULL'}::VARCHAR)"
        for table, split, path, problem in _files(prepared)
    )
    return f"SELECT * FROM (VALUES {rows}) AS file(home, split, row, prompt_id, problem)"


def _files(prepared: Path) -> Iterator[tuple[str, str, Path, str | None]]:
    for table in paths.TABLES:
        for split in paths.SPLITS:
            path = paths.table(prepared, table, split)
            try:
                found = pq.read_schema(path)
            except FileNotFoundError:
                raise DataError(f"{path} is missing; run prepare_data (dvc repro prepare_data)") from None
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"{path} is not a readable Parquet file: {error}") from None
            yield table, split, path, _problem(found, records.SCHEMAS[table])


def _problem(found: pa.Schema, expected: pa.Schema) -> str | None:
    missing = [field.name for field in expected if field.name not in found.names]
    if missing:
        return f"column {', '.join(missing)} is missing"
    wrong = [
        f"{field.name} is {found.field(field.name).type}, expected {field.type}"
        for field in expected
        if not found.field(field.name).type.equals(field.type)
    ]
    return "; ".join(wrong) or None
