"""The Great Expectations data source behind the gate: `context.data_sources.add_relations(...)`.

One source holds one asset whose single batch is all relations together, so that a suite may look at
several of them. The engine that computes is in engine.py.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from . import gx
from .engine import DuckDBEngine


class RelationsAsset(gx.DataAsset):
    """All relations of a source, as one batch."""

    type: Literal["relations"] = "relations"

    def test_connection(self) -> None:
        """Nothing to test: the views were made when the engine started."""

    def get_batch_parameters_keys(self, partitioner: Any = None) -> tuple[str, ...]:
        return ()

    def build_batch_request(
        self, options: Any = None, batch_slice: Any = None, partitioner: Any = None
    ) -> gx.BatchRequest:
        return gx.BatchRequest(datasource_name=self.datasource.name, data_asset_name=self.name, options={})

    def _validate_batch_request(self, batch_request: gx.BatchRequest) -> None:
        """Requests are only built above."""

    def get_batch_identifiers_list(self, batch_request: gx.BatchRequest) -> list[dict[str, Any]]:
        return [gx.IDDict()]

    def get_batch(self, batch_request: gx.BatchRequest) -> gx.Batch:
        engine = self.datasource.get_execution_engine()
        spec = gx.BatchSpec({"relations": ", ".join(engine.relations)})
        data, markers = engine.get_batch_data_and_markers(spec)
        definition = gx.LegacyBatchDefinition(
            datasource_name=self.datasource.name,
            data_connector_name="fluent",
            data_asset_name=self.name,
            batch_identifiers=gx.IDDict(),
        )
        return gx.Batch(
            datasource=self.datasource,
            data_asset=self,
            batch_request=batch_request,
            data=data,
            metadata={},
            batch_markers=markers,
            batch_spec=spec,
            batch_definition=definition,
        )


class RelationsDatasource(gx.Datasource):
    """Named SELECT statements over Parquet files, computed by DuckDB."""

    asset_types: ClassVar[Sequence[type[gx.DataAsset]]] = [RelationsAsset]

    type: Literal["relations"] = "relations"
    relations: dict[str, str]
    memory_gib: float
    scratch: str
    threads: int = 0
    assets: list[RelationsAsset] = gx.pydantic.Field(default_factory=list)

    @property
    def execution_engine_type(self) -> builtins.type[DuckDBEngine]:
        return DuckDBEngine

    def test_connection(self, test_assets: bool = True) -> None:
        self.get_execution_engine()
