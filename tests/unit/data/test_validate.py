"""The whole gate: stop, quarantine, publish; what the user reads; nothing half-published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline import paths, publish, records
from rlhf_pipeline.data.expectation_names import DEFAULT_SEVERITY, UNCONDITIONAL
from rlhf_pipeline.data.validate import Verdict, validate
from rlhf_pipeline.errors import DataError, ParamsError

from .made import Row, model, params, preference, prepared

pytestmark = pytest.mark.slow
FACTS = {"stage": "validate_data", "params": "0123456789abcdef"}
GOOD = {
    ("preferences", split): [preference(f"{split} one"), preference(f"{split} two", chosen="<b>So</b> $x.")]
    for split in paths.SPLITS
}
BAD = {
    **GOOD,
    ("preferences", "train"): [*GOOD["preferences", "train"], preference("train three", chosen="")],
}


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(rows: dict[tuple[str, str], list[Row]], **overrides: Any) -> Verdict:
    tables = prepared(paths.PREPARED, rows)
    return validate(params(**overrides), tables, model(paths.BASE_MODEL), FACTS)


def test_good_data_is_published_whole_and_reported(tmp_path: Path) -> None:
    verdict = run(GOOD, validate_data__checks={"expect_no_near_duplicates_across_splits": "off"})
    assert verdict.quarantined == dict.fromkeys(paths.TABLES, 0)
    assert verdict.expectations > 40
    assert set(verdict.speeds) == {"tokens", "personal data", "scripts"}
    assert all(rows_per_s > 0 for rows_per_s in verdict.speeds.values())
    for table in paths.TABLES:
        for split in paths.SPLITS:
            published = paths.table(paths.VALIDATED, table, split)
            assert published.read_bytes() == paths.table(paths.PREPARED, table, split).read_bytes()
    assert publish.verify(paths.VALIDATED)["params"] == FACTS["params"]
    figures = json.loads(paths.metrics("data").read_text())
    assert figures["preferences.rows"] == 6
    assert figures["checks_failed"] == 0
    assert figures["checks_evaluated"] == verdict.expectations
    assert all(isinstance(value, int | float) for value in figures.values())


def test_bad_data_stops_with_the_rows_named_and_nothing_published() -> None:
    with pytest.raises(DataError) as caught:
        run(BAD)
    message = str(caught.value)
    assert "the data does not pass: 1 expectation failed" in message
    assert "preferences: expect_text_to_be_present [error]: 1 of 7 rows (14.286%)" in message
    assert "preferences/train row 2 (prompt " in message
    assert "chosen holds no text" in message
    assert not paths.VALIDATED.exists()
    assert json.loads(paths.metrics("data").read_text())["checks_failed"] == 1


def test_quarantine_publishes_the_good_rows_and_keeps_the_bad_ones_aside() -> None:
    verdict = run(BAD, validate_data__on_error="quarantine")
    assert verdict.quarantined == {"preferences": 1, "sft": 0, "prompts": 0}
    published = pq.read_table(paths.table(paths.VALIDATED, "preferences", "train"))
    assert published.schema.equals(records.PREFERENCES)
    assert published["chosen"].to_pylist() == ["Because.", "<b>So</b> $x."]
    aside = pq.read_table(paths.table(paths.DATA_REPORT / "quarantine", "preferences", "train")).to_pylist()
    assert [(row["prompt"][0]["content"], row["reason"]) for row in aside] == [
        ("train three", "chosen holds no text")
    ]
    assert json.loads(paths.metrics("data").read_text())["preferences.quarantined_rows"] == 1
    index = (paths.DATA_REPORT / "docs" / "index.html").read_text()
    assert "the data passes" in index
    assert "1 row was taken out" in index


def test_quarantine_cannot_mend_too_few_rows() -> None:
    with pytest.raises(DataError, match=r"expect_enough_training_rows.*\n.*\n.*\n.*does not mend this"):
        run(
            BAD,
            validate_data__on_error="quarantine",
            validate_data__min_rows=3,
            validate_data__tables=["preferences"],
        )
    assert not paths.VALIDATED.exists()


def test_an_older_validated_set_stays_when_new_data_fails() -> None:
    run(GOOD)
    before = publish.verify(paths.VALIDATED)
    with pytest.raises(DataError):
        run(BAD)
    assert publish.verify(paths.VALIDATED) == before


def test_a_warning_does_not_stop() -> None:
    checks = {"expect_text_to_be_present": "warn"}
    verdict = run(BAD, validate_data__checks=checks)
    assert any(one.startswith("preferences: expect_text_to_be_present [warn]") for one in verdict.warnings)
    assert paths.VALIDATED.is_dir()


def test_offending_rows_are_a_table_and_the_docs_read_offline() -> None:
    with pytest.raises(DataError):
        run(BAD, validate_data__checks={"expect_no_repeated_pairs": "off"})
    rows = pq.read_table(paths.DATA_REPORT / "offending_rows.parquet").to_pylist()
    [bad] = [row for row in rows if row["severity"] == "error"]
    assert (bad["expectation"], bad["table"], bad["split"], bad["row"]) == (
        "expect_text_to_be_present",
        "preferences",
        "train",
        2,
    )
    assert bad["id"] == records.prompt_id([{"role": "user", "content": "train three"}])
    assert bad["excerpt"] == "prompt: train three | chosen:  | rejected: No."
    assert pa.csv.read_csv(paths.DATA_REPORT / "offending_rows.csv").num_rows == len(rows)
    pages = {page.name: page.read_text() for page in (paths.DATA_REPORT / "docs").iterdir()}
    assert {"index.html", "preferences.html", "tokens.html"} <= pages.keys()
    assert "the data does not pass" in pages["index.html"]
    assert "_tokens" not in re.sub(r"max_\w+_tokens", "", pages["index.html"])
    assert "chosen holds no text" in pages["preferences.html"]
    for name, page in pages.items():
        assert not re.search(r"""(src|href)=["'](https?:)?//|@import|<script""", page), name
        for link in re.findall(r'href="([^"#]+)"', page):
            assert (paths.DATA_REPORT / "docs" / link).resolve().exists(), (name, link)


def test_markup_in_the_data_is_shown_not_obeyed() -> None:
    nasty = preference("train nasty", chosen="<script>alert(1)</script> $name ${x} {{ y }}\x00")
    with pytest.raises(DataError):
        run({**GOOD, ("preferences", "train"): [nasty]})
    page = (paths.DATA_REPORT / "docs" / "text.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt; $name ${x} {{ y }}" in page
    assert "<script" not in page


def test_switching_everything_off_is_refused() -> None:
    names = [name for name in DEFAULT_SEVERITY if name not in UNCONDITIONAL]
    with pytest.raises(DataError, match="no expectation is left"):
        run(GOOD, validate_data__checks=dict.fromkeys(names, "off"))
    assert not paths.VALIDATED.exists()


@pytest.mark.parametrize("name", UNCONDITIONAL)
def test_what_all_others_rest_on_cannot_be_relaxed(name: str) -> None:
    with pytest.raises(ParamsError, match=rf"validate_data\.checks\.{name}: cannot be relaxed"):
        run(GOOD, validate_data__checks={name: "warn"})


def test_a_missing_or_damaged_file_is_named() -> None:
    tables = prepared(paths.PREPARED, GOOD)
    model(paths.BASE_MODEL)
    path = paths.table(tables, "sft", "test")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"sft/test\.parquet is not a readable Parquet file"):
        validate(params(), tables, paths.BASE_MODEL, FACTS)
    path.unlink()
    with pytest.raises(DataError, match=r"sft/test\.parquet is missing; run prepare_data"):
        validate(params(), tables, paths.BASE_MODEL, FACTS)


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    tables = prepared(paths.PREPARED, GOOD)
    with pytest.raises(DataError, match=r"nowhere/tokenizer\.json is missing"):
        validate(params(), tables, tmp_path / "nowhere", FACTS)


@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
@pytest.mark.parametrize("broken", [b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80"])
def test_text_that_is_not_utf8_is_located(on_error: str, broken: bytes) -> None:
    tables = prepared(paths.PREPARED, GOOD)
    path = paths.table(tables, "preferences", "train")
    table = pq.read_table(path)
    column = pa.array([b"fine", broken], pa.binary()).view(pa.string())
    at = table.schema.get_field_index("rejected")
    pq.write_table(table.set_column(at, records.PREFERENCES.field("rejected"), column), path)
    with pytest.raises(DataError) as caught:
        validate(params(validate_data__on_error=on_error), tables, model(paths.BASE_MODEL), FACTS)
    message = str(caught.value)
    assert "encoding: expect_valid_utf8 [error]: 1 of 12 rows" in message
    assert "preferences/train row 1" in message
    assert "rejected is not valid UTF-8" in message
    assert "does not mend this" in message
    assert not paths.VALIDATED.exists()


@pytest.mark.parametrize("on_error", ["stop", "quarantine"])
def test_a_wrong_schema_stops_before_anything_else(on_error: str) -> None:
    schema = records.SFT.remove(records.SFT.get_field_index("source"))
    tables = prepared(paths.PREPARED, GOOD, sft=schema)
    with pytest.raises(
        DataError, match=r"files: expect_schema \[error\]: 3 of 9 rows(.|\n)*column source is missing"
    ):
        validate(params(validate_data__on_error=on_error), tables, model(paths.BASE_MODEL), FACTS)
