"""Finds prompts of one split that nearly repeat a prompt of a split kept for evaluation.

MinHash proposes candidates, the exact Jaccard similarity of word 3-grams decides. The band keys go
through Parquet and DuckDB, so memory does not grow with the data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .engine import DuckDBEngine
from .fingerprints import Shingler, bands, jaccard
from .relations import ALL_PROMPTS, SPLIT_RANK, quoted

NAME = "near_duplicates"
SHINGLE_WORDS = 3
BATCH_ROWS = 4096
MOST_PARTNERS = 8
"""Prompts of the guarded splits compared per shared band: bounds the work on boilerplate."""
KEYS = pa.schema([("prompt_id", pa.string()), ("split", pa.string()), ("key", pa.list_(pa.uint64()))])
HITS = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("split", pa.string()),
        ("other_id", pa.string()),
        ("other_split", pa.string()),
        ("similarity", pa.float64()),
    ]
)
DISTINCT = f'SELECT prompt_id, split, any_value(text) AS text FROM "{ALL_PROMPTS}" GROUP BY prompt_id, split'


def find(engine: DuckDBEngine, threshold: float, scratch: Path) -> str:
    """Look for near-duplicates; returns the SELECT of all prompts with their nearest guarded one, if any."""
    keys, hits = scratch / f"{NAME}_keys.parquet", scratch / f"{NAME}.parquet"
    shingler = Shingler(SHINGLE_WORDS)
    with pq.ParquetWriter(keys, KEYS) as writer:
        for batch in engine.batches(DISTINCT, BATCH_ROWS):
            found = bands(*shingler.hashes(batch["text"].to_pylist()))
            listed = pa.FixedSizeListArray.from_arrays(pa.array(found.reshape(-1)), found.shape[1])
            columns = [batch["prompt_id"], batch["split"], listed.cast(pa.list_(pa.uint64()))]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=KEYS))
    with pq.ParquetWriter(hits, HITS) as writer:
        for batch in engine.batches(_candidates(keys), BATCH_ROWS):
            writer.write_batch(_confirmed(batch, shingler, threshold))
    nearest = (
        "SELECT prompt_id, split, arg_max(other_id, similarity) AS other_id,"
        " arg_max(other_split, similarity) AS other_split, max(similarity) AS similarity"
        f" FROM read_parquet({quoted(str(hits))}) GROUP BY prompt_id, split"
    )
    return (
        f'SELECT home, split, row, prompt_id, other_id, other_split, similarity FROM "{ALL_PROMPTS}"'
        f" LEFT JOIN ({nearest}) USING (prompt_id, split)"
    )


def _candidates(keys: Path) -> str:
    """Pairs of different prompts that share a band, the first in a less guarded split than the second."""
    return f"""
        WITH distinct_prompts AS ({DISTINCT}),
        band AS (SELECT prompt_id, split, {SPLIT_RANK} AS rank, unnest(key) AS key
                 FROM read_parquet({quoted(str(keys))})),
        guarded AS (SELECT * FROM band WHERE rank > 0
                    QUALIFY row_number() OVER (PARTITION BY key, rank ORDER BY prompt_id) <= {MOST_PARTNERS}),
        pair AS (SELECT DISTINCT a.prompt_id, a.split, b.prompt_id AS other_id, b.split AS other_split
                 FROM band a JOIN guarded b
                 ON a.key = b.key AND a.rank < b.rank AND a.prompt_id <> b.prompt_id)
        SELECT pair.*, mine.text AS text, other.text AS other_text FROM pair
        JOIN distinct_prompts mine ON mine.prompt_id = pair.prompt_id AND mine.split = pair.split
        JOIN distinct_prompts other ON other.prompt_id = pair.other_id AND other.split = pair.other_split"""


def _confirmed(batch: pa.RecordBatch, shingler: Shingler, threshold: float) -> pa.RecordBatch:
    sides = []
    for column in ("text", "other_text"):
        hashes, counts = shingler.hashes(batch[column].to_pylist())
        sides.append(np.split(hashes, np.cumsum(counts)[:-1]))
    similarity = np.array([jaccard(a, b) for a, b in zip(*sides, strict=True)])
    columns = [batch[name] for name in HITS.names[:-1]]
    found = pa.RecordBatch.from_arrays([*columns, pa.array(similarity, pa.float64())], schema=HITS)
    return found.filter(pa.array(similarity >= threshold))
