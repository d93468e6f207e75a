"""Sources to tables: mapping, sampling, splits, system prompt, what is left out and how it is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rlhf_pipeline import paths, records
from rlhf_pipeline.data.prepare import prepare
from rlhf_pipeline.errors import DataError

from .made import params

Tables = dict[tuple[str, str], list[dict[str, Any]]]
SOURCE = {"kind": "auto", "weight": 1.0, "limit": None, "mapping": None, "options": None}


def source(name: str, **changed: Any) -> dict[str, Any]:
    return {**SOURCE, "path": f"{name}.jsonl", "name": name, **changed}


def run(folder: Path, sources: list[dict[str, Any]], **overrides: Any) -> tuple[Tables, dict[str, Any]]:
    out = folder / "prepared"
    out.mkdir(exist_ok=True)
    data = params(data__sources=sources, **overrides).data
    facts = prepare(data, 7, folder, out)
    return {
        (table, split): pq.read_table(paths.table(out, table, split)).to_pylist()
        for table in paths.TABLES
        for split in paths.SPLITS
    }, facts


def write(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pair(number: int) -> dict[str, Any]:
    return {"prompt": f"Question {number}?", "chosen": f"Yes {number}.", "rejected": f"No {number}."}


def every(tables: Tables, table: str) -> list[dict[str, Any]]:
    return [row for split in paths.SPLITS for row in tables[table, split]]


def test_no_prompt_is_in_two_splits_of_any_table(tmp_path: Path) -> None:
    write(tmp_path, "a", *(pair(n) for n in range(300)))
    write(tmp_path, "b", *({"instruction": f"question  {n}?", "output": "x"} for n in range(300)))
    tables, _ = run(tmp_path, [source("a"), source("b")])
    place: dict[str, str] = {}
    for (_, split), rows in tables.items():
        for row in rows:
            identifier = row.get("prompt_id") or row["extra_info"]["prompt_id"]
            assert place.setdefault(identifier, split) == split
    assert len(place) == 300
    # 10% and 15% of 300, give or take three standard deviations of a binomial count.
    counts = {split: sum(one == split for one in place.values()) for split in paths.SPLITS}
    assert 14 <= counts["validation"] <= 46
    assert 26 <= counts["test"] <= 64


def test_a_conversation_with_tools_shares_the_split_of_its_prompt(tmp_path: Path) -> None:
    def said(number: int) -> list[dict[str, str]]:
        roles = ("user", "assistant", "tool", "assistant")
        return [{"role": role, "content": f"{role} {number}"} for role in roles]

    write(tmp_path, "calls", *({"messages": said(n)} for n in range(100)))
    write(tmp_path, "asked", *({"prompt": f"user {n}", "ground_truth": "x"} for n in range(100)))
    tables, _ = run(tmp_path, [source("calls"), source("asked")])
    for split in paths.SPLITS:
        asked = {row["extra_info"]["prompt_id"] for row in tables["prompts", split]}
        assert asked == {row["prompt_id"] for row in tables["sft", split]}
    assert len(every(tables, "prompts")) == 100


def test_the_split_and_the_id_are_those_of_records(tmp_path: Path) -> None:
    write(tmp_path, "a", pair(1))
    tables, _ = run(tmp_path, [source("a")])
    [row] = every(tables, "preferences")
    assert row["prompt_id"] == records.prompt_id([{"role": "user", "content": "Question 1?"}])
    split = records.split_of(row["prompt_id"], 0.1, 0.15)
    assert tables["preferences", split] == [row]


def test_equal_work_gives_equal_bytes(tmp_path: Path) -> None:
    write(tmp_path, "a", *(pair(n) for n in range(50)))
    run(tmp_path, [source("a")])
    first = {path: path.read_bytes() for path in (tmp_path / "prepared").rglob("*.parquet")}
    run(tmp_path, [source("a")])
    assert len(first) == 11
    assert all(path.read_bytes() == content for path, content in first.items())


def test_prompts_and_demonstrations_stand_once_and_the_rest_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "a", pair(1), pair(1) | {"rejected": "Other."}, pair(2))
    tables, facts = run(tmp_path, [source("a")])
    assert (len(every(tables, "preferences")), len(every(tables, "sft")), len(every(tables, "prompts"))) == (
        3,
        2,
        2,
    )
    assert facts["a"]["repeated"] == 2
    assert facts["a"]["preferences_rows"] == 3


def test_the_system_prompt_is_put_before_prompts_without_one(tmp_path: Path) -> None:
    own = [{"role": "system", "content": "Own."}, {"role": "user", "content": "Hi"}]
    write(tmp_path, "a", pair(1), {"prompt": own, "chosen": "a", "rejected": "b"})
    tables, _ = run(tmp_path, [source("a")], data__system_prompt="Be kind.")
    systems = sorted(row["prompt"][0]["content"] for row in every(tables, "preferences"))
    assert systems == ["Be kind.", "Own."]
    assert all(row["prompt"][0]["role"] == "system" for row in every(tables, "prompts"))


def test_tables_can_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a", pair(1))
    tables, _ = run(tmp_path, [source("a", options={"tables": ["preferences"]})])
    assert len(every(tables, "preferences")) == 1
    assert every(tables, "sft") == every(tables, "prompts") == []


@pytest.mark.parametrize("tables", [[], ["reward"], "preferences", 3])
def test_unknown_tables_are_named(tmp_path: Path, tables: Any) -> None:
    write(tmp_path, "a", pair(1))
    with pytest.raises(DataError, match=r"\(a\)\.options\.tables: a list out of preferences, sft, prompts"):
        run(tmp_path, [source("a", options={"tables": tables})])


def test_unknown_options_are_named(tmp_path: Path) -> None:
    write(tmp_path, "a", pair(1))
    with pytest.raises(
        DataError, match=r"\(a\)\.options: seperator unknown for preference; known: .*separator"
    ):
        run(tmp_path, [source("a", options={"seperator": ";"})])


def test_a_limit_takes_rows_by_hash_not_by_position(tmp_path: Path) -> None:
    rows = [pair(n) for n in range(100)]
    write(tmp_path, "a", *rows)
    write(tmp_path, "b", *reversed(rows))
    kept, facts = run(tmp_path, [source("a", limit=10)])
    chosen = {row["chosen"] for row in every(kept, "preferences")}
    again, _ = run(tmp_path, [source("a", path="b.jsonl", limit=10)])
    assert len(chosen) == 10
    assert {row["chosen"] for row in every(again, "preferences")} == chosen
    assert chosen != {f"Yes {n}." for n in range(10)}
    assert facts["a"]["sampled_out"] == 90


def test_a_weight_below_one_keeps_that_share(tmp_path: Path) -> None:
    write(tmp_path, "a", *(pair(n) for n in range(400)))
    tables, facts = run(tmp_path, [source("a", weight=0.5)])
    kept = len(every(tables, "preferences"))
    # 200, give or take three standard deviations (10) of a binomial count.
    assert 170 <= kept <= 230
    assert facts["a"]["sampled_out"] == 400 - kept


def test_a_weight_above_one_repeats_training_rows_only(tmp_path: Path) -> None:
    write(tmp_path, "a", *(pair(n) for n in range(40)))
    once, _ = run(tmp_path, [source("a")])
    thrice, _ = run(tmp_path, [source("a", weight=3.0)])
    assert len(thrice["preferences", "train"]) == 3 * len(once["preferences", "train"])
    assert thrice["preferences", "test"] == once["preferences", "test"]


@pytest.mark.parametrize(
    ("mapping", "row"),
    [
        (
            {"prompt": "ask", "chosen": "good", "rejected": "bad"},
            {"ask": "Why?", "good": "Because.", "bad": "No."},
        ),
        (
            {
                "prompt": "turns[0].text",
                "chosen": "answers[?best].text | [0]",
                "rejected": "answers[?!best].text | [0]",
            },
            {
                "turns": [{"text": "Why?"}],
                "answers": [{"text": "No.", "best": False}, {"text": "Because.", "best": True}],
            },
        ),
        (
            {"prompt": "the question", "chosen": "answer-a", "rejected": "answer-b"},
            {"the question": "Why?", "answer-a": "Because.", "answer-b": "No."},
        ),
    ],
)
def test_a_mapping_names_columns_or_paths(
    tmp_path: Path, mapping: dict[str, str], row: dict[str, Any]
) -> None:
    write(tmp_path, "a", row)
    tables, facts = run(tmp_path, [source("a", kind="mapping", mapping=mapping)])
    [found] = every(tables, "preferences")
    assert (found["prompt"][0]["content"], found["chosen"], found["rejected"]) == ("Why?", "Because.", "No.")
    assert facts["a"]["shape"] == "preference"


def test_a_mapping_that_finds_nothing_names_the_row(tmp_path: Path) -> None:
    write(tmp_path, "a", {"ask": "Why?", "good": "a", "bad": "b"}, {"ask": "Why?", "good": "a"})
    mapping = {"prompt": "ask", "chosen": "good", "rejected": "bad"}
    with pytest.raises(
        DataError, match=r"a\.jsonl, row 2: mapping\.rejected: 'bad' finds nothing; the row has 'ask', 'good'"
    ):
        run(tmp_path, [source("a", kind="mapping", mapping=mapping)])


def test_a_mapping_to_an_unknown_field_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a", pair(1))
    with pytest.raises(DataError, match=r"\(a\)\.mapping: unknown field better; known: prompt, chosen"):
        run(tmp_path, [source("a", kind="mapping", mapping={"prompt": "prompt", "better": "chosen"})])


def test_files_of_different_shapes_are_not_one_source(tmp_path: Path) -> None:
    write(tmp_path, "a1", pair(1))
    write(tmp_path, "a2", {"instruction": "x", "output": "y"})
    with pytest.raises(
        DataError, match=r"a2\.jsonl looks like instruction, the files before it like preference"
    ):
        run(tmp_path, [source("a", path="a*.jsonl")])


def test_a_named_kind_is_held_to(tmp_path: Path) -> None:
    write(tmp_path, "a", {"question": "Why?", "answer": "Because."})
    with pytest.raises(DataError, match=r"row 1: column 'answer' must end with '#### <final answer>'"):
        run(tmp_path, [source("a", kind="question_answer")])


def test_benchmarks_are_kept_beside_the_tables(tmp_path: Path) -> None:
    write(tmp_path, "a", pair(1))
    write(
        tmp_path,
        "exam",
        {"question": "Two and two?", "answer": "#### 4"},
        {"question": "Two and two?", "answer": "#### 4"},
    )
    run(tmp_path, [source("a")], data__benchmarks=["exam.jsonl"])
    found = pq.read_table(tmp_path / "prepared" / "benchmarks.parquet").to_pylist()
    assert {(one["benchmark"], one["text"]) for one in found} == {("exam.jsonl", "Two and two?")}


def test_the_synthetic_source_fills_all_tables(tmp_path: Path) -> None:
    made = {"n_prompts": 60, "demonstrations_per_prompt": 1, "pairs_per_prompt": 2}
    synthetic = {**SOURCE, "kind": "synthetic", "path": None, "name": "synthetic"}
    tables, _ = run(tmp_path, [synthetic], data__synthetic=made)
    assert len(every(tables, "preferences")) == 120
    assert len(every(tables, "prompts")) == 60
    assert {row["reward_model"]["style"] for row in every(tables, "prompts")} == {"rule"}
    assert all(row["reward_model"]["ground_truth"] for row in every(tables, "prompts"))


def test_verls_columns_and_place(tmp_path: Path) -> None:
    write(tmp_path, "a", {"question": "Why?", "answer": "#### 4"})
    tables, _ = run(tmp_path, [source("a")])
    [row] = every(tables, "prompts")
    assert row["data_source"] == "a"
    assert row["reward_model"] == {"style": "rule", "ground_truth": "4"}
    assert row["extra_info"]["index"] == 0
    assert tables["prompts", row["extra_info"]["split"]] == [row]
