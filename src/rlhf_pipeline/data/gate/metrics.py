"""The two Great Expectations metrics behind every check: an aggregate figure and the offending rows.

Aggregates of one relation are bundled by the engine into a single scan; rows are looked up only when
the figure says that there are some.
"""

from __future__ import annotations

from typing import Any

from . import gx
from .engine import DuckDBEngine

FIGURE = "relation.figure"
OFFENDERS = "relation.offenders"


class RelationFigure(gx.MetricProvider):
    """`expression`, an SQL aggregate, over the relation named by the domain's `table`."""

    metric_name = FIGURE
    domain_keys = ("batch_id", "table")
    value_keys = ("expression",)

    @gx.metric_partial(
        engine=DuckDBEngine,
        partial_fn_type=gx.MetricPartialFunctionTypes.AGGREGATE_FN,
        domain_type=gx.MetricDomainTypes.TABLE,
    )
    def _aggregate(
        cls, metric_domain_kwargs: dict[str, Any], metric_value_kwargs: dict[str, Any], **_: Any
    ) -> tuple[str, dict[str, Any], dict[str, Any]]:
        return metric_value_kwargs["expression"], metric_domain_kwargs, {}


class RelationOffenders(gx.MetricProvider):
    """The records of `query`, or none without asking when the figure `expression` is 0."""

    metric_name = OFFENDERS
    domain_keys = ("batch_id", "table")
    value_keys = ("expression", "query")

    @gx.metric_value(engine=DuckDBEngine)
    def _rows(
        cls,
        execution_engine: DuckDBEngine,
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        **_: Any,
    ) -> list[dict[str, Any]]:
        return execution_engine.records(metric_value_kwargs["query"]) if metrics[FIGURE] else []

    @classmethod
    def _get_evaluation_dependencies(
        cls,
        metric: Any,
        configuration: Any = None,
        execution_engine: Any = None,
        runtime_configuration: Any = None,
    ) -> dict[str, Any]:
        return {FIGURE: figure(metric.metric_domain_kwargs, metric.metric_value_kwargs["expression"])}


def figure(domain: dict[str, Any], expression: str) -> Any:
    """The configuration of one aggregate figure."""
    return gx.MetricConfiguration(
        FIGURE, metric_domain_kwargs=domain, metric_value_kwargs={"expression": expression}
    )


def offenders(domain: dict[str, Any], expression: str, query: str) -> Any:
    """The configuration of one list of offending rows."""
    values = {"expression": expression, "query": query}
    return gx.MetricConfiguration(OFFENDERS, metric_domain_kwargs=domain, metric_value_kwargs=values)
