"""Marks training rows that hold a passage of a benchmark: any run of n words in common.

Benchmarks are read by prepare_data into benchmarks.parquet. Only the training split is compared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ... import paths
from ..tables import BENCHMARKS
from .engine import DuckDBEngine
from .fingerprints import Shingler
from .relations import all_contents, quoted

NAME = "benchmark_overlap"
BATCH_ROWS = 2048
SCHEMA = pa.schema(
    [
        ("home", pa.string()),
        ("split", pa.string()),
        ("row", pa.int64()),
        ("prompt_id", pa.string()),
        ("benchmark", pa.string()),
    ]
)


def find(engine: DuckDBEngine, prepared: Path, n_words: int, scratch: Path) -> str:
    """Compare every training row with the benchmarks; returns the SELECT of rows and overlaps."""
    out = scratch / f"{NAME}.parquet"
    shingler = Shingler(n_words)
    known, names = _known(prepared / BENCHMARKS, shingler)
    with pq.ParquetWriter(out, SCHEMA) as writer:
        for table in paths.TABLES:
            query = (
                f"SELECT home, split, row, prompt_id, coalesce({all_contents(table)}, '') AS text"
                f" FROM \"{table}\" WHERE split = 'train'"
            )
            for batch in engine.batches(query, BATCH_ROWS):
                hashes, counts = shingler.hashes(batch["text"].to_pylist())
                place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
                overlaps = np.where(known[place] == hashes, place, -1)
                last = np.maximum.reduceat(overlaps, np.cumsum(counts) - counts)
                marked = pa.array([None if at < 0 else names[at] for at in last], pa.string())
                columns = [batch[name] for name in SCHEMA.names[:-1]]
                writer.write_batch(pa.RecordBatch.from_arrays([*columns, marked], schema=SCHEMA))
    return f"SELECT * FROM read_parquet({quoted(str(out))})"


def _known(path: Path, shingler: Shingler) -> tuple[np.ndarray, list[str]]:
    """The benchmarks' n-gram hashes in order, and the benchmark that each belongs to."""
    table = pq.read_table(path)
    hashes, counts = shingler.hashes(table["text"].to_pylist())
    owners = np.repeat(np.arange(table.num_rows), counts)
    unique, first = np.unique(hashes, return_index=True)
    benchmarks = table["benchmark"].to_pylist()
    return unique, [benchmarks[owners[at]] for at in first]
