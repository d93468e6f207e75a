"""The nine files: always all there, written in pieces when rows are long."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rlhf_pipeline import paths, records
from rlhf_pipeline.data import tables

from .made import demonstration, preference


def test_empty_tables_are_written_with_their_schema(tmp_path: Path) -> None:
    with tables.TableWriters(tmp_path):
        pass
    for table in paths.TABLES:
        for split in paths.SPLITS:
            assert pq.read_table(paths.table(tmp_path, table, split)).schema.equals(records.SCHEMAS[table])


def test_long_rows_are_written_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nine files share 900 characters: a file is written once it holds 100.
    monkeypatch.setattr(tables, "BUFFERED_CHARACTERS", 900)
    with tables.TableWriters(tmp_path) as writers:
        for _ in range(4):
            writers.add("preferences", "train", preference(chosen="x" * 60))
            writers.add("sft", "test", demonstration(response=""))
        assert writers.rows() == {"preferences": 4, "sft": 4, "prompts": 0}
    preferences = pq.ParquetFile(paths.table(tmp_path, "preferences", "train"))
    assert (preferences.metadata.num_rows, preferences.num_row_groups) == (4, 2)
    assert pq.ParquetFile(paths.table(tmp_path, "sft", "test")).num_row_groups == 1
