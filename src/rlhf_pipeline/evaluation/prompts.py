"""Reads the test prompts and test pairs that an evaluation runs on, always the same ones for the same data.

Prompt ids are hashes, so the first n of them in order are a random sample that every policy shares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .. import paths
from ..errors import DataError


def held_out_prompts(n_prompts: int, data: Path = paths.VALIDATED) -> list[dict[str, Any]]:
    """At most `n_prompts` rows of the prompts table's test split, each prompt once, ordered by prompt id.

    Raises:
        DataError: when the table is missing or has no row.
    """
    path = paths.table(data, "prompts", "test")
    unique = {row["extra_info"]["prompt_id"]: row for row in _rows(path)}
    if not unique:
        raise DataError(f"{path} has no prompts to evaluate on: raise data.test_fraction or add data")
    return [unique[identifier] for identifier in sorted(unique)[:n_prompts]]


def held_out_pairs(data: Path = paths.VALIDATED) -> list[dict[str, Any]]:
    """All rows of the preferences table's test split; may be none.

    Raises:
        DataError: when the table is missing.
    """
    return _rows(paths.table(data, "preferences", "test"))


def last_user_text(row: dict[str, Any]) -> str:
    """The text of the last message that the user wrote in a prompts-table row."""
    return next(
        (message["content"] for message in reversed(row["prompt"]) if message["role"] == "user"),
        row["prompt"][-1]["content"],
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError(f"{path} does not exist: run `dvc repro validate_data` first")
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
