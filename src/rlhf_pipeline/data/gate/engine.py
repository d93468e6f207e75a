"""A Great Expectations execution engine on DuckDB: all aggregate metrics of a relation in a scan or two.

The batch is a set of named relations (views over Parquet files, never loaded into memory). Metrics
are SQL; what they mean is in metrics.py and expectations/. Row conditions are not supported: a check
states its own condition.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa

from . import gx

MACROS = (r"normalised(t) AS trim(regexp_replace(lower(t), '[^\p{L}\p{N}]+', ' ', 'g'))",)
"""SQL functions that conditions may use."""
GROUPING = ("DISTINCT", "histogram(")
"""What marks an aggregate that the planner computes by grouping."""


class RelationsBatch(gx.BatchData):
    """The relations of one batch, by name."""

    def __init__(self, execution_engine: DuckDBEngine, names: list[str]) -> None:
        super().__init__(execution_engine)
        self.names = names


class DuckDBEngine(gx.ExecutionEngine):
    """Runs metrics on views over Parquet, in bounded memory, spilling to `scratch`.

    Args:
        relations: view name -> SELECT statement.
        memory_gib: limit of DuckDB's own memory.
        scratch: folder for what does not fit.
        threads: 0 takes every core.
    """

    def __init__(
        self, relations: dict[str, str], memory_gib: float, scratch: str, threads: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{memory_gib}GiB",
            "temp_directory": scratch,
            "preserve_insertion_order": False,
        }
        if threads:
            settings["threads"] = threads
        self.connection = duckdb.connect(config=settings)
        for macro in MACROS:
            self.connection.execute(f"CREATE MACRO {macro}")
        self.relations: list[str] = []
        for name, select in relations.items():
            self.add(name, select)

    def get_batch_data_and_markers(self, batch_spec: gx.BatchSpec) -> tuple[RelationsBatch, gx.BatchMarkers]:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        return RelationsBatch(self, self.relations), gx.BatchMarkers({"ge_load_time": now})

    def resolve_metric_bundle(self, metric_fn_bundle: Iterable[Any]) -> dict[Any, Any]:
        """The values of all aggregate expressions: a scan per relation, and one more for those that group.

        Together in one SELECT the planner would materialise the texts for the grouping, which costs
        twice the time of both scans and all the memory there is.
        """
        scans: dict[tuple[str, bool], list[Any]] = defaultdict(list)
        for entry in metric_fn_bundle:
            groups = any(word in entry.metric_fn for word in GROUPING)
            scans[entry.compute_domain_kwargs["table"], groups].append(entry)
        resolved: dict[Any, Any] = {}
        for (relation, _), entries in scans.items():
            values = self.row(f'SELECT {", ".join(entry.metric_fn for entry in entries)} FROM "{relation}"')
            resolved |= {
                entry.metric_configuration.id: value for entry, value in zip(entries, values, strict=True)
            }
        return resolved

    def row(self, sql: str) -> tuple[Any, ...]:
        """The single row of a query."""
        found = self.connection.execute(sql).fetchall()
        return tuple(found[0])

    def records(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query, as dictionaries."""
        cursor = self.connection.execute(sql)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def batches(self, sql: str, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a query as record batches, streamed."""
        # A cursor of its own, so that another query may run between two batches.
        yield from self.connection.cursor().sql(sql).to_arrow_reader(rows)

    def add(self, name: str, select: str) -> None:
        """One more relation."""
        self.connection.execute(f'CREATE VIEW "{name}" AS {select}')
        self.relations.append(name)

    def _no_row_conditions(self, condition: Any) -> str:
        raise gx.great_expectations.exceptions.GreatExpectationsError(
            "row conditions are not supported on relations"
        )

    _comparison_condition_to_filter_clause = _no_row_conditions
    _nullity_condition_to_filter_clause = _no_row_conditions
    _and_condition_to_filter_clause = _no_row_conditions
    _or_condition_to_filter_clause = _no_row_conditions
