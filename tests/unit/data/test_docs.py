"""docs/data.md holds what the code does: shapes, expectations, formats, and recipes that run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from rlhf_pipeline import paths
from rlhf_pipeline.data import readers
from rlhf_pipeline.data.expectation_names import DEFAULT_SEVERITY
from rlhf_pipeline.data.prepare import prepare
from rlhf_pipeline.data.shapes import SHAPES
from rlhf_pipeline.data.validate import validate
from rlhf_pipeline.params.load import parse

from .made import REAL_DATA, REPOSITORY, model, values

TEXT = (REPOSITORY / "docs" / "data.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"<!-- recipe: (\S+) -->\n```yaml\n(.*?)```", TEXT, re.DOTALL))


def table_rows(first_header: str) -> Iterator[list[str]]:
    """The cells of a Markdown table, found by its first header cell."""
    [body] = re.findall(rf"^\| {first_header} \|.*\n\|[ -|]*\n((?:\|.*\n)+)", TEXT, re.MULTILINE)
    for line in body.splitlines():
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_every_shape_is_documented() -> None:
    documented = [cells[0].strip("`") for cells in table_rows("kind")]
    assert sorted(documented) == sorted(shape.name for shape in SHAPES)


def test_every_expectation_is_documented_with_its_severity_and_statement() -> None:
    from rlhf_pipeline.data.gate import gx, suites  # noqa: F401

    found = {cells[0].strip("`"): cells[1:] for cells in table_rows("expectation")}
    registered = gx.registered_expectations()
    assert found == {
        name: [severity, registered[name].statement] for name, severity in DEFAULT_SEVERITY.items()
    }


def test_every_format_and_option_is_documented() -> None:
    assert all(
        f"`{suffix}`" in TEXT for suffix in readers.READERS if suffix not in (".ndjson", ".pq", ".ipc")
    )
    assert all(f"`{option}`" in TEXT for option in readers.OPTIONS)


def test_the_benchmark_table_is_the_one_measured() -> None:
    measured = json.loads((REPOSITORY / "benchmarks" / "results" / "data.json").read_text())["rows"]
    figures = [
        [f"{one['rows']:,}", f"{one['rows_per_s']:,}", f"{one['ratio']:.2f}", f"{one['peak_mb']:,} MB"]
        for one in measured
    ]
    documented = [[cells[0], *cells[2:]] for cells in table_rows("rows")]
    assert sorted(documented) == sorted(figures)
    assert all(one["peak_mb"] < 2_000 for one in measured if one["measure"] != "scan")


def expected_rows(name: str) -> tuple[int, int, int]:
    """Rows of the three tables, all splits, that each recipe prepares."""
    return {
        "gsm8k": (0, 7473, 7473),
        "pandalm": (888, 401, 158),
        "qa-feedback": (2616, 488, 488),
        "self-instruct": (0, 427, 0),
    }[name]


@pytest.mark.slow
@pytest.mark.skipif(not REAL_DATA.is_dir(), reason="the real data sets are not here")
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_runs_through_the_gate(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    overrides: dict[str, Any] = YAML(typ="safe", pure=True).load(RECIPES[name])
    params = parse(values(), {"data.raw": str(REAL_DATA), **overrides})
    paths.PREPARED.mkdir(parents=True)
    prepare(params.data, params.seed, REAL_DATA, paths.PREPARED)
    assert rows_in(paths.PREPARED) == expected_rows(name)
    verdict = validate(params, paths.PREPARED, model(paths.BASE_MODEL), {})
    taken = tuple(verdict.quarantined[table] for table in paths.TABLES)
    assert rows_in(paths.VALIDATED) == tuple(a - b for a, b in zip(expected_rows(name), taken, strict=True))
    if name == "pandalm":
        assert taken[0] >= 52
    if name == "gsm8k":
        # Three questions, each as a demonstration and as a prompt, share 13 words with a test question.
        assert taken == (0, 3, 3)


def rows_in(root: Path) -> tuple[int, ...]:
    return tuple(
        sum(pq.read_metadata(paths.table(root, table, split)).num_rows for split in paths.SPLITS)
        for table in paths.TABLES
    )


def test_the_recipes_are_the_four_sets() -> None:
    assert set(RECIPES) == {"gsm8k", "pandalm", "qa-feedback", "self-instruct"}
