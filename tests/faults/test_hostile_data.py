"""Malformed and unusual source files: each loads right, or gives one error naming file, row and column.

Every case goes through `prepare`, the whole way to the tables. What is wrong with well-formed text is
the data gate's business (tests/unit/data).
"""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from rlhf_pipeline import paths
from rlhf_pipeline.data.prepare import prepare
from rlhf_pipeline.errors import DataError
from rlhf_pipeline.params.common import Data, Source, Synthetic

from .hostile_errors import REFUSED
from .hostile_files import HEADER, LOADS, OTHER, PAIR, TWO, arrow, columns, jsonl, parquet, xlsx

Rows = dict[str, list[dict[str, Any]]]


def load(raw: Path, path: str, **options: Any) -> Rows:
    """The rows of the three tables, all splits together, in the order of the splits."""
    source = Source.model_validate(
        {
            "kind": "auto",
            "path": path,
            "name": "hostile",
            "weight": 1.0,
            "limit": None,
            "mapping": None,
            "options": None,
        }
        | options
    )
    data = Data(
        raw=str(raw),
        sources=[source],
        benchmarks=[],
        synthetic=Synthetic(n_prompts=1, demonstrations_per_prompt=1, pairs_per_prompt=1),
        validation_fraction=0.1,
        test_fraction=0.1,
        max_prompt_tokens=64,
        max_response_tokens=64,
        system_prompt=None,
    )
    out = raw.parent / "prepared"
    out.mkdir(exist_ok=True)
    prepare(data, 7, raw, out)
    return {
        table: [
            row for split in paths.SPLITS for row in pq.read_table(paths.table(out, table, split)).to_pylist()
        ]
        for table in paths.TABLES
    }


def pairs(rows: Rows) -> set[tuple[str, str, str]]:
    return {(row["prompt"][-1]["content"], row["chosen"], row["rejected"]) for row in rows["preferences"]}


def write(folder: Path, name: str, content: bytes) -> Path:
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    (raw / name).write_bytes(content)
    return raw


def test_the_suite_is_large_enough() -> None:
    assert len(LOADS) + len(REFUSED) >= 60


@pytest.mark.parametrize("case", LOADS)
def test_unusual_files_load_right(case: str, tmp_path: Path) -> None:
    name, content, expected = LOADS[case]
    rows = load(write(tmp_path, name, content()), name)
    assert pairs(rows) == expected
    assert {row["messages"][-1]["content"] for row in rows["sft"]} == {chosen for _, chosen, _ in expected}
    assert {row["prompt"][-1]["content"] for row in rows["prompts"]} == {prompt for prompt, _, _ in expected}


@pytest.mark.parametrize("case", REFUSED)
def test_malformed_files_give_one_error_naming_the_place(case: str, tmp_path: Path) -> None:
    name, content, message = REFUSED[case]
    with pytest.raises(DataError) as caught:
        load(write(tmp_path, name, content()), name)
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_bad_row_can_be_set_aside_instead(tmp_path: Path) -> None:
    raw = write(tmp_path, "a.jsonl", jsonl(PAIR, OTHER | {"chosen": True}))
    assert pairs(load(raw, "a.jsonl", options={"bad_rows": "set_aside"})) == {("Why?", "Because.", "No.")}
    aside = pq.read_table(tmp_path / "prepared" / "set_aside.parquet").to_pylist()
    assert [(one["file"], one["row"]) for one in aside] == [("a.jsonl", 2)]
    assert "boolean True" in aside[0]["reason"]


@pytest.mark.parametrize(
    "path", ["../outside.jsonl", "sub/../../outside.jsonl", "/etc/hostname", "*/../../*.jsonl"]
)
def test_paths_that_lead_outside_are_refused(path: str, tmp_path: Path) -> None:
    raw = write(tmp_path, "a.jsonl", jsonl(PAIR))
    (raw / "sub").mkdir()
    (tmp_path / "outside.jsonl").write_bytes(jsonl(PAIR))
    with pytest.raises(DataError, match=r"leads outside data\.raw|holds no file|relative to data\.raw"):
        load(raw, path)


def test_a_link_that_leads_outside_is_refused(tmp_path: Path) -> None:
    raw = write(tmp_path, "a.jsonl", jsonl(PAIR))
    (tmp_path / "outside.jsonl").write_bytes(jsonl(PAIR))
    (raw / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    with pytest.raises(DataError, match=r"link\.jsonl leads outside data\.raw"):
        load(raw, "link.jsonl")


def shards(raw: Path, **contents: bytes) -> None:
    (raw / "shards").mkdir(parents=True)
    for name, content in contents.items():
        (raw / "shards" / f"{name}.parquet").write_bytes(content)


def test_shards_are_read_together_and_empty_ones_do_no_harm(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    empty = {name: pa.array([], pa.string()) for name in HEADER}
    first, second = ({name: column.slice(at, 1) for name, column in columns().items()} for at in (0, 1))
    shards(raw, a=parquet(empty), b=parquet(first), c=parquet(empty), d=parquet(second))
    assert pairs(load(raw, "shards")) == TWO


def test_a_shard_without_a_needed_column_is_named(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    lacking = {name: column for name, column in columns().items() if name != "rejected"}
    shards(raw, a=parquet(columns()), b=parquet(lacking))
    with pytest.raises(DataError, match=r"shards/b\.parquet"):
        load(raw, "shards")


def test_a_shard_with_another_type_is_named(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    shards(raw, a=parquet(columns()), b=parquet(columns(chosen=pa.array([1, 2]))))
    with pytest.raises(DataError, match=r"shards/b\.parquet, row 1: .*'chosen' must hold text"):
        load(raw, "shards")


def test_a_folder_of_several_formats_is_refused(tmp_path: Path) -> None:
    raw = write(tmp_path, "a.jsonl", jsonl(PAIR))
    (raw / "b.parquet").write_bytes(parquet(columns()))
    with pytest.raises(DataError, match=r"several formats \(\.jsonl, \.parquet\)"):
        load(raw, ".")


def test_hive_partitions_add_their_columns(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    for prompt, content in (
        ("Why%3F", {"chosen": ["Because."], "rejected": ["No."]}),
        ("Go", {"chosen": ["x"], "rejected": ["y"]}),
    ):
        (raw / "set" / f"prompt={prompt}").mkdir(parents=True)
        (raw / "set" / f"prompt={prompt}" / "part-0.parquet").write_bytes(parquet(content))
    assert pairs(load(raw, "set")) == {("Why?", "Because.", "No."), ("Go", "x", "y")}


SEEDS = {
    "a.jsonl": jsonl(PAIR, OTHER),
    "b.csv": b'prompt,chosen,rejected\nWhy?,"Bec""ause.",No.\nHow?,So.,Never.\n',
    "c.parquet": parquet(columns()),
    "d.arrow": arrow(columns()),
    "e.xlsx": xlsx(HEADER, ["Why?", "Because.", "No."]),
    "f.jsonl.gz": gzip.compress(jsonl(PAIR, OTHER)),
    "g.jsonl.zst": zstandard.compress(jsonl(PAIR, OTHER)),
}


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The content with a few bytes changed, added or lost, or its end cut off."""
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        place = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                found[place] = rng.randrange(256)
            case 1:
                found[place:place] = bytes([rng.randrange(256)]) * rng.choice([1, 5])
            case 2 if len(found) > 20:
                del found[place : place + rng.choice([1, 2, 9])]
            case 3 if rng.random() < 0.2:
                found = found[: place + 1]
    return bytes(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_no_damage_ends_in_a_traceback(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    outcomes = set()
    for _ in range(60):
        raw = write(tmp_path, name, mutated(SEEDS[name], rng))
        message = None
        try:
            load(raw, name)
        except DataError as error:
            message = str(error)
        outcomes.add("loaded" if message is None else "refused")
        assert message is None or name in message or "no source gave a single row" in message
    assert "refused" in outcomes


@pytest.mark.parametrize("path", ["**.jsonl", "/etc/host*"])
def test_what_is_no_pattern_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(DataError, match="is not a glob pattern"):
        load(tmp_path / "raw", path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with pytest.raises(DataError, match=r"nowhere\.jsonl holds no file"):
        load(tmp_path / "raw", "nowhere.jsonl")
