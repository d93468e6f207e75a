"""Great Expectations as this package uses it: imported in one place, without usage reports.

Importing this module takes seconds; only the gate's own modules may do so.
"""

from __future__ import annotations

import logging
import os
import warnings

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
# Expectations of ours replace renderers that they inherit; the library logs each of them as a warning.
logging.getLogger("great_expectations.expectations.registry").setLevel(logging.ERROR)
with warnings.catch_warnings():
    # Third-party deprecations inside the library are not the user's business.
    warnings.simplefilter("ignore")
    import great_expectations
    from great_expectations.compatibility import pydantic
    from great_expectations.core.batch import BatchData, LegacyBatchDefinition
    from great_expectations.core.batch_spec import BatchMarkers, BatchSpec
    from great_expectations.core.id_dict import IDDict
    from great_expectations.core.metric_domain_types import MetricDomainTypes
    from great_expectations.core.metric_function_types import MetricPartialFunctionTypes
    from great_expectations.data_context.types.base import DataContextConfig, InMemoryStoreBackendDefaults
    from great_expectations.datasource.fluent.batch_request import BatchRequest
    from great_expectations.datasource.fluent.interfaces import Batch, DataAsset, Datasource
    from great_expectations.execution_engine import ExecutionEngine
    from great_expectations.expectations import registry
    from great_expectations.expectations.expectation import BatchExpectation
    from great_expectations.expectations.metrics.metric_provider import (
        MetricProvider,
        metric_partial,
        metric_value,
    )
    from great_expectations.render import LegacyDiagnosticRendererType, LegacyRendererType
    from great_expectations.render.renderer.renderer import renderer
    from great_expectations.validator.metric_configuration import MetricConfiguration


def registered_expectations() -> dict[str, type[BatchExpectation]]:
    """Name -> class of every expectation of this package that has been imported."""
    names = registry.list_registered_expectation_implementations()
    kinds = {name: registry.get_expectation_impl(name) for name in names}
    return {name: kind for name, kind in kinds.items() if kind.__module__.startswith(__package__)}


__all__ = [
    "Batch",
    "BatchData",
    "BatchExpectation",
    "BatchMarkers",
    "BatchRequest",
    "BatchSpec",
    "DataAsset",
    "DataContextConfig",
    "Datasource",
    "ExecutionEngine",
    "IDDict",
    "InMemoryStoreBackendDefaults",
    "LegacyBatchDefinition",
    "LegacyDiagnosticRendererType",
    "LegacyRendererType",
    "MetricConfiguration",
    "MetricDomainTypes",
    "MetricPartialFunctionTypes",
    "MetricProvider",
    "great_expectations",
    "metric_partial",
    "metric_value",
    "pydantic",
    "registered_expectations",
    "renderer",
]
