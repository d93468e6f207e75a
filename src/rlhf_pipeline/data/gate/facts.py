"""Makes the relations that need more than SQL over the tables: tokens, near-duplicates, benchmarks.

Only those that some expectation asks for, each timed. What the facts mean is judged by expectations.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from ... import paths
from ...params.training import ValidateData
from ..chat import ChatTokenizer
from ..tables import BENCHMARKS
from . import contamination, near_duplicates, tokens
from .engine import DuckDBEngine
from .suites import Budgets


@dataclass(slots=True)
class Made:
    """What came with the facts: seconds by the suite that needs them, and figures for the metrics."""

    seconds: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)


def has_benchmarks(prepared: Path) -> bool:
    """Whether prepare_data was given benchmarks to keep out of training."""
    return (
        pq.read_metadata(prepared / BENCHMARKS).num_rows > 0 if (prepared / BENCHMARKS).is_file() else False
    )


def make(
    engine: DuckDBEngine,
    wanted: Iterable[str],
    prepared: Path,
    section: ValidateData,
    budgets: Budgets,
    chat: ChatTokenizer,
    scratch: Path,
) -> Made:
    """Add the wanted relations to the engine."""
    made = Made()
    names = set(wanted)
    if tokens.TOKENIZER in names:
        engine.add(tokens.TOKENIZER, tokens.tokenizer_relation(chat))
    with _timed(made, "tokens"):
        for table in paths.TABLES:
            if tokens.relation(table) in names:
                out = scratch / f"{tokens.relation(table)}.parquet"
                select = tokens.measure(chat, prepared, table, budgets.max_response_tokens, out)
                engine.add(tokens.relation(table), select)
                made.figures |= tokens.figures(engine, table)
    with _timed(made, "near duplicates"):
        if near_duplicates.NAME in names:
            select = near_duplicates.find(engine, section.near_duplicate_threshold, scratch)
            engine.add(near_duplicates.NAME, select)
    with _timed(made, "benchmarks"):
        if contamination.NAME in names:
            select = contamination.find(engine, prepared, section.contamination_words, scratch)
            engine.add(contamination.NAME, select)
    return made


@contextmanager
def _timed(made: Made, suite: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    made.seconds[suite] = time.perf_counter() - start
