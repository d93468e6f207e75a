"""Parts the good rows of the prepared tables from the bad ones, and writes both, batch by batch.

What is bad is decided by the gate's findings; this file only reads row positions and copies rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ... import paths, records
from ..expectation_names import UNCONDITIONAL
from .engine import DuckDBEngine
from .expectations.base import RowExpectation
from .run import Finding

BATCH_ROWS = 8192


def quarantinable(findings: Iterable[Finding]) -> bool:
    """Whether all these findings name rows that could be taken out, and the rest could then be read."""
    return all(
        isinstance(one.expectation, RowExpectation) and not one.exception and one.name not in UNCONDITIONAL
        for one in findings
    )


def mark(engine: DuckDBEngine, findings: Iterable[Finding]) -> None:
    """Fill the DuckDB table `bad_rows` (home, split, row, reason) from the findings' conditions."""
    engine.connection.execute(
        "CREATE TEMP TABLE bad_rows (home VARCHAR, split VARCHAR, row BIGINT, reason VARCHAR)"
    )
    for one in findings:
        if isinstance(one.expectation, RowExpectation):
            select = one.expectation.rows(f"home, split, row, {one.expectation.reason()}")
            engine.connection.execute(f"INSERT INTO bad_rows {select}")


def part(engine: DuckDBEngine, prepared: Path, good: Path, bad: Path) -> dict[str, int]:
    """Write each table's good rows below `good` and its marked rows, with reasons, below `bad`.

    Returns the number of rows taken out, per table.
    """
    taken = dict.fromkeys(paths.TABLES, 0)
    for table in paths.TABLES:
        for split in paths.SPLITS:
            marked = engine.connection.sql(
                "SELECT row, string_agg(DISTINCT reason, '; ' ORDER BY reason) AS reason FROM bad_rows"
                f" WHERE home = '{table}' AND split = '{split}' GROUP BY row ORDER BY row"
            ).to_arrow_table()
            source, target = (paths.table(root, table, split) for root in (prepared, good))
            target.parent.mkdir(parents=True, exist_ok=True)
            if marked.num_rows == 0:
                shutil.copyfile(source, target)
                continue
            taken[table] += marked.num_rows
            aside = paths.table(bad, table, split)
            aside.parent.mkdir(parents=True, exist_ok=True)
            _part_file(source, target, aside, records.SCHEMAS[table], marked)
    return taken


def _part_file(source: Path, target: Path, aside: Path, schema: pa.Schema, marked: pa.Table) -> None:
    rows, reasons = marked["row"].to_numpy(), marked["reason"].combine_chunks()
    bad_schema = schema.append(pa.field("reason", pa.string()))
    with (
        pq.ParquetFile(source) as file,
        pq.ParquetWriter(target, schema, compression="zstd") as good_writer,
        pq.ParquetWriter(aside, bad_schema, compression="zstd") as bad_writer,
    ):
        start = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS):
            first, last = np.searchsorted(rows, [start, start + batch.num_rows])
            is_bad = np.zeros(batch.num_rows, dtype=bool)
            is_bad[rows[first:last] - start] = True
            good_writer.write_batch(batch.filter(pa.array(~is_bad)).cast(schema))
            bad = batch.filter(pa.array(is_bad)).cast(schema)
            reason = reasons.slice(first, last - first)
            bad_writer.write_batch(pa.RecordBatch.from_arrays([*bad.columns, reason], schema=bad_schema))
            start += batch.num_rows
