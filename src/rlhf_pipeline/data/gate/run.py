"""Runs the suites over the prepared tables and collects what Great Expectations found.

A suite that evaluated nothing and an expectation that raised are failures. Reports and quarantine
are written elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import gx
from .datasource import RelationsDatasource
from .engine import DuckDBEngine
from .expectations.base import RelationExpectation
from .expectations.rendering import exception_of

SOURCE = "prepared"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one expectation found."""

    suite: str
    name: str
    table: str
    heading: str
    severity: str
    """error or warn."""
    passed: bool
    statement: str
    observed: Any
    rows: int
    offending: int
    offenders: list[dict[str, Any]]
    exception: str | None
    """Why the expectation could not be evaluated."""
    expectation: RelationExpectation

    @property
    def place(self) -> str:
        """The table, or what else was looked at, as readers know it."""
        return self.table.removesuffix("_tokens").replace("_", " ")


@dataclass(slots=True)
class Outcome:
    """Everything one run of the gate found."""

    findings: list[Finding] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    """Great Expectations' own result of each suite, for the Data Docs."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Wall time of each suite, the making of its facts included."""

    def extend(self, other: Outcome) -> None:
        """Add what another run of the same gate found."""
        self.findings += other.findings
        self.results |= other.results
        self.seconds |= other.seconds

    def speed(self, suite: str) -> float | None:
        """Rows per second that a suite looked at, or None when it did not run."""
        if suite not in self.seconds:
            return None
        rows = {one.place: one.rows for one in self.findings if one.suite == suite}
        return sum(rows.values()) / self.seconds[suite]

    @property
    def failed(self) -> list[Finding]:
        """Findings that stop the pipeline: errors, and checks that could not be evaluated."""
        return [one for one in self.findings if not one.passed and (one.severity == "error" or one.exception)]

    @property
    def warned(self) -> list[Finding]:
        return [one for one in self.findings if not one.passed and one not in self.failed]


class Gate:
    """One ephemeral Great Expectations context over a set of relations."""

    def __init__(self, relations: Mapping[str, str], scratch: Path, memory_gib: float) -> None:
        config = gx.DataContextConfig(
            store_backend_defaults=gx.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
            progress_bars={"globally": False},
            analytics_enabled=False,
        )
        self.context = gx.great_expectations.get_context(mode="ephemeral", project_config=config)
        self.source: RelationsDatasource = self.context.data_sources.add_relations(
            SOURCE, relations=dict(relations), memory_gib=memory_gib, scratch=str(scratch)
        )
        asset = self.source.add_relations_asset("tables")
        self.batch = asset.add_batch_definition("all")

    @property
    def engine(self) -> DuckDBEngine:
        return self.source.get_execution_engine()

    def run(self, suites: Mapping[str, Sequence[RelationExpectation]]) -> Outcome:
        """Validate every suite."""
        gx_classes = gx.great_expectations
        outcome = Outcome()
        for name, expectations in suites.items():
            start = time.perf_counter()
            suite = self.context.suites.add(gx_classes.ExpectationSuite(name=name))
            for expectation in expectations:
                suite.add_expectation(expectation)
            definition = self.context.validation_definitions.add(
                gx_classes.ValidationDefinition(name=name, data=self.batch, suite=suite)
            )
            result = definition.run(result_format="COMPLETE")
            by_name = {(one.expectation_type, one.table): one for one in expectations}
            outcome.findings += [_finding(name, one, by_name) for one in result.results]
            outcome.results[name] = result
            outcome.seconds[name] = time.perf_counter() - start
        return outcome


def _finding(suite: str, result: Any, expectations: Mapping[tuple[str, str], RelationExpectation]) -> Finding:
    config, found = result.expectation_config, result.result or {}
    exception = exception_of(result.exception_info)
    return Finding(
        suite=suite,
        name=config.type,
        table=config.kwargs["table"],
        heading=config.kwargs["column"],
        severity={"critical": "error"}.get(str(getattr(config.severity, "value", config.severity)), "warn"),
        passed=bool(result.success) and exception is None,
        statement=config.description or "",
        observed=found.get("observed_value"),
        rows=int(found.get("element_count") or 0),
        offending=int(found.get("unexpected_count") or 0),
        offenders=list(found.get("unexpected_index_list") or []),
        exception=exception,
        expectation=expectations[config.type, config.kwargs["table"]],
    )
