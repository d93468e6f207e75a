"""Writes what the gate found: the offending rows as Parquet and CSV, all findings as JSON, the metrics.

The Data Docs are built in docs.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ... import publish
from .run import Finding, Outcome

OFFENDING_ROWS = "offending_rows"
FINDINGS = "findings.json"
COLUMNS = ("expectation", "severity", "table", "split", "row", "id", "reason", "excerpt")
SCHEMA = pa.schema([(name, pa.int64() if name == "row" else pa.string()) for name in COLUMNS])


def write(outcome: Outcome, folder: Path) -> None:
    """Write offending_rows.parquet, offending_rows.csv and findings.json."""
    rows = [
        {
            "expectation": one.name,
            "severity": one.severity,
            "table": row["home"],
            **{key: row[key] for key in ("split", "row", "id", "reason", "excerpt")},
        }
        for one in outcome.findings
        if not one.passed
        for row in one.offenders
    ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    pq.write_table(table, folder / f"{OFFENDING_ROWS}.parquet")
    pa.csv.write_csv(table, folder / f"{OFFENDING_ROWS}.csv")
    publish.write_json(folder / FINDINGS, [_entry(one) for one in outcome.findings])


def _entry(one: Finding) -> dict[str, Any]:
    return {
        "suite": one.suite,
        "expectation": one.name,
        "table": one.table,
        "statement": one.statement,
        "severity": one.severity,
        "passed": one.passed,
        "observed": one.observed,
        "rows": one.rows,
        "offending": one.offending,
        "exception": one.exception,
    }


def metrics(outcome: Outcome, quarantined: dict[str, int]) -> dict[str, float]:
    """Flat figures: counts of checks, and per check and table the offending rows or the observed value."""
    figures: dict[str, float] = {
        "checks_evaluated": sum(one.exception is None for one in outcome.findings),
        "checks_failed": len(outcome.failed),
        "checks_warned": len(outcome.warned),
        **{f"{table}.quarantined_rows": count for table, count in quarantined.items()},
    }
    for one in outcome.findings:
        name = f"{one.table}.{one.name.removeprefix('expect_')}"
        if isinstance(one.observed, int | float):
            figures[name] = one.observed
        elif one.exception is None:
            figures[f"{name}.offending_rows"] = one.offending
        figures[f"{one.table}.rows"] = max(figures.get(f"{one.table}.rows", 0), one.rows)
    return figures


def lines(one: Finding, rows_shown: int) -> list[str]:
    """A finding and a few of its rows, for the terminal."""
    observed = one.exception.splitlines()[0] if one.exception else one.observed
    return [
        f"{one.place}: {one.name} [{one.severity}]: {observed}. {one.statement}",
        *(
            f"  {row['home']}/{row['split']} row {row['row']} (prompt {row['id']}): {row['reason']}"
            for row in one.offenders[:rows_shown]
        ),
    ]
