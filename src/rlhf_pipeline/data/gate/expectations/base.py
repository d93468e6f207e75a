"""The bases of the gate's expectations: one for offending rows, one for a single figure.

An expectation states SQL; the metrics compute it and the result carries the offending rows' ids and
excerpts into the Data Docs. A relation without rows never passes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .. import gx, metrics, relations


class RelationExpectation(gx.BatchExpectation):
    """A statement about one relation (`table`); `column` is the heading it stands under in the Data Docs."""

    table: str
    column: str

    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "table")

    @classmethod
    def is_abstract(cls) -> bool:
        return "statement" not in cls.__dict__

    def _dependencies(self, execution_engine: Any, runtime_configuration: Any, wanted: dict[str, Any]) -> Any:
        dependencies = super().get_validation_dependencies(execution_engine, runtime_configuration)
        for name, configuration in wanted.items():
            dependencies.set_metric_configuration(name, configuration)
        return dependencies

    @classmethod
    @gx.renderer(renderer_type=gx.LegacyDiagnosticRendererType.STATUS_ICON)
    def _status_icon(cls, configuration: Any = None, result: Any = None, **_: Any) -> Any:
        from .rendering import status_icon

        return status_icon(result)

    @classmethod
    @gx.renderer(renderer_type=gx.LegacyDiagnosticRendererType.UNEXPECTED_STATEMENT)
    def _named(cls, configuration: Any = None, result: Any = None, **_: Any) -> list[Any]:
        from .rendering import name_and_problem

        return name_and_problem(result)


class RowExpectation(RelationExpectation):
    """At most `max_fraction` of the relation's rows meet the offending condition."""

    max_fraction: float = 0.0
    listed: int

    success_keys: ClassVar[tuple[str, ...]] = ("max_fraction", "listed")
    has_excerpt: ClassVar[bool] = True
    """Whether the rows are rows of the tables, which have text to show."""

    def offends(self) -> str:
        """SQL predicate of an offending row."""
        raise TypeError(f"{type(self).__name__} states no condition")

    def count(self) -> str:
        """SQL aggregate that counts the offending rows; overridden where a cheaper one exists."""
        return f"count(*) FILTER (WHERE {self.offends()})"

    def reason(self) -> str:
        """SQL text that says what is wrong with an offending row."""
        return relations.quoted(self.description or self.expectation_type)

    def rows(self, columns: str) -> str:
        """The SELECT of the offending rows."""
        return f'SELECT {columns} FROM "{self.table}" WHERE {self.offends()}'

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: Any = None
    ) -> Any:
        domain = self._get_domain_kwargs()
        listing = f"prompt_id AS id, home, split, row, {self.reason()} AS reason"
        bad = f"SELECT * FROM ({self.rows(listing)}) ORDER BY home, split, row LIMIT {self.listed}"
        query = f"SELECT *, NULL AS excerpt FROM ({bad})"
        if self.has_excerpt:
            excerpts = relations.excerpts()
            query = f"SELECT bad.*, excerpt FROM ({bad}) bad LEFT JOIN ({excerpts}) USING (home, split, row)"
        query += " ORDER BY home, split, row"
        wanted = {
            "rows": metrics.figure(domain, "count(*)"),
            "offending": metrics.figure(domain, self.count()),
            "offenders": metrics.offenders(domain, self.count(), query),
        }
        return self._dependencies(execution_engine, runtime_configuration, wanted)

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        rows, offending = int(metrics["rows"]), int(metrics["offending"])
        share = offending / rows if rows else 1.0
        return {
            "success": rows > 0 and share <= self.max_fraction,
            "result": {
                "element_count": rows,
                "unexpected_count": offending,
                "unexpected_percent": 100 * share,
                "observed_value": f"{offending:,} of {rows:,} rows ({share:.3%})"
                if offending
                else f"0 of {rows:,} rows",
                "unexpected_index_list": metrics["offenders"],
            },
        }

    @classmethod
    @gx.renderer(renderer_type=gx.LegacyDiagnosticRendererType.UNEXPECTED_TABLE)
    def _offenders_table(cls, configuration: Any = None, result: Any = None, **_: Any) -> Any:
        from .rendering import offenders_table

        return offenders_table((result.result or {}).get("unexpected_index_list") or [])


class FigureExpectation(RelationExpectation):
    """One aggregate of the relation lies between two bounds (either may be None)."""

    minimum: float | None = None
    maximum: float | None = None

    success_keys: ClassVar[tuple[str, ...]] = ("minimum", "maximum")
    unit: ClassVar[str] = ""

    def figure(self) -> str:
        """SQL aggregate whose value is judged."""
        raise TypeError(f"{type(self).__name__} states no figure")

    def get_validation_dependencies(
        self, execution_engine: Any = None, runtime_configuration: Any = None
    ) -> Any:
        domain = self._get_domain_kwargs()
        wanted = {"rows": metrics.figure(domain, "count(*)"), "figure": metrics.figure(domain, self.figure())}
        return self._dependencies(execution_engine, runtime_configuration, wanted)

    def _validate(
        self, metrics: dict[str, Any], runtime_configuration: Any = None, execution_engine: Any = None
    ) -> dict[str, Any]:
        rows, found = int(metrics["rows"]), metrics["figure"]
        holds = found is not None and (self.minimum is None or found >= self.minimum)
        holds = holds and (self.maximum is None or found <= self.maximum)
        value = None if found is None else float(found)
        return {
            "success": rows > 0 and holds,
            "result": {"element_count": rows, "observed_value": value},
        }
