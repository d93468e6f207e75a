"""Every expectation of the gate on tables made to break it: which rows offend, counted by hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.data.chat import ChatTokenizer
from rlhf_pipeline.data.expectation_names import DEFAULT_SEVERITY, UNCONDITIONAL
from rlhf_pipeline.data.gate import facts, files, gx, relations, run, suites

from .made import Row, demonstration, model, preference, prepared, prompt, user
from .made import params as made_params

Rows = dict[tuple[str, str], list[Row]]
TRAIN, TEST = ("preferences", "train"), ("preferences", "test")


def judge(
    folder: Path, rows: Rows, names: Iterable[str], **overrides: Any
) -> dict[tuple[str, str], run.Finding]:
    """The findings of the named expectations, by name and relation."""
    checks = {name: "off" for name in DEFAULT_SEVERITY if name not in (*names, *UNCONDITIONAL)}
    params = made_params(**{"validate_data__checks": checks, **overrides})
    tables, scratch = prepared(folder / "prepared", rows), folder / "scratch"
    scratch.mkdir()
    chat = ChatTokenizer(model(folder / "model"))
    budgets = suites.Budgets(params.data.max_prompt_tokens, params.data.max_response_tokens)
    section = params.validate_data
    wanted = suites.suites(section, budgets, chat, facts.has_benchmarks(tables))
    gate = run.Gate(relations.relations(tables), scratch, 0.5)
    needed = {one.table for expectations in wanted.values() for one in expectations}
    facts.make(gate.engine, needed, tables, section, budgets, chat, scratch)
    return {(one.name, one.table): one for one in gate.run(wanted).findings}


def offending(finding: run.Finding) -> list[tuple[str, str, int]]:
    return [(row["home"], row["split"], row["row"]) for row in finding.offenders]


WORDS = " ".join(f"w{number:02}" for number in range(1, 23))
NBSP = "\u00a0\u3000 \t\n\u200b"
CASES: dict[str, tuple[Rows, str, list[tuple[str, str, int]]]] = {
    "expect_text_to_be_present": (
        {
            TRAIN: [
                preference(),
                preference(chosen=""),
                preference(rejected=NBSP),
                preference(prompt="  "),
                preference(chosen="\u201cquoted\u201d"),
                preference(chosen="\u4f60\u597d"),
            ]
        },
        "preferences",
        [("preferences", "train", n) for n in (1, 2, 3)],
    ),
    "expect_turns_in_order": (
        {
            ("sft", "train"): [
                demonstration(),
                demonstration(messages=user("Why?")),
                demonstration(messages=[{"role": "assistant", "content": "a"}]),
                demonstration(messages=[{"role": "system", "content": "s"}, *demonstration()["messages"]]),
                demonstration(messages=[*demonstration()["messages"], *demonstration()["messages"]]),
                demonstration(messages=[*user("a"), *user("b"), {"role": "assistant", "content": "c"}]),
                demonstration(messages=[]),
            ]
        },
        "sft",
        [("sft", "train", n) for n in (1, 2, 5, 6)],
    ),
    "expect_no_control_characters": (
        {
            TRAIN: [
                preference(chosen="tab\tand\r\nlines"),
                preference(chosen="a\x00b"),
                preference(prompt="a\x85\x9fb"),
                preference(rejected="\x7f"),
            ]
        },
        "preferences",
        [("preferences", "train", n) for n in (1, 2, 3)],
    ),
    "expect_no_mojibake": (
        {
            TRAIN: [
                preference(chosen="caf\u00e9, \u00c3 la carte"),
                preference(chosen="caf\u00e9".encode().decode("latin-1")),
                preference(rejected="it\u2019s".encode().decode("cp1252")),
                preference(prompt="broken \ufffd"),
            ]
        },
        "preferences",
        [("preferences", "train", n) for n in (1, 2, 3)],
    ),
    "expect_chosen_to_differ_from_rejected": (
        {TRAIN: [preference(), preference(chosen="No."), preference(chosen="no.")]},
        "preferences",
        [("preferences", "train", 1)],
    ),
    "expect_chosen_to_differ_from_rejected_in_substance": (
        {
            TRAIN: [
                preference(),
                preference(chosen="no!"),
                preference(chosen="\u201cNo\u201d"),
                preference(chosen="No."),
                preference(chosen="Ja, Stra\u00dfe", rejected="ja STRA\u00dfE!"),
                preference(chosen="12 e", rejected="1 2 e"),
            ]
        },
        "preferences",
        [("preferences", "train", n) for n in (1, 2, 4)],
    ),
    "expect_no_repeated_pairs": (
        {
            TRAIN: [preference(), preference(chosen="x"), preference()],
            TEST: [preference(), preference(rejected="y")],
        },
        "preferences",
        [("preferences", "train", 0), ("preferences", "train", 2)],
    ),
    "expect_no_contradicting_pairs": (
        {
            TRAIN: [
                preference(chosen="a", rejected="b"),
                preference(chosen="b", rejected="a"),
                preference(prompt="How?", chosen="b", rejected="a"),
                preference(chosen="c", rejected="d"),
                preference(chosen="c", rejected="d"),
            ]
        },
        "preferences",
        [("preferences", "train", 0), ("preferences", "train", 1)],
    ),
    "expect_prompts_to_be_distinct": (
        {("prompts", "train"): [prompt("a"), prompt("b"), prompt("a"), prompt("A ")]},
        "prompts",
        [("prompts", "train", 2), ("prompts", "train", 3)],
    ),
    "expect_prompts_in_one_split": (
        {
            ("prompts", "train"): [prompt("a"), prompt("b")],
            ("sft", "test"): [demonstration("a", "x")],
            ("preferences", "validation"): [preference("a"), preference("c")],
        },
        relations.ALL_PROMPTS,
        [("preferences", "validation", 0), ("prompts", "train", 0)],
    ),
    "expect_normalised_prompts_in_one_split": (
        {("prompts", "train"): [prompt(" A  cat")], ("prompts", "test"): [prompt("a cat"), prompt("a dog")]},
        relations.ALL_PROMPTS,
        [("prompts", "train", 0)],
    ),
    "expect_no_near_duplicates_across_splits": (
        {
            ("prompts", "train"): [
                prompt(f"{WORDS} other"),
                prompt(f"{WORDS} w23".replace("w06", "other")),
            ],
            ("prompts", "test"): [prompt(f"{WORDS} w23")],
        },
        "near_duplicates",
        # 21 shingles each: one changed at the end leaves 20 / 22 = 0.909; one in the middle 18 / 24 = 0.75.
        [("prompts", "train", 0)],
    ),
    "expect_prompts_to_fit": (
        # <|user|> + words + <|end|> + <|assistant|>: the budget of 6 leaves three words.
        {("prompts", "train"): [prompt("one two three"), prompt("one two three four")]},
        "prompts_tokens",
        [("prompts", "train", 1)],
    ),
    "expect_responses_to_fit": (
        # Three words and EOS are four tokens, the budget.
        {TRAIN: [preference(chosen="one two three"), preference(rejected="one two three four")]},
        "preferences_tokens",
        [("preferences", "train", 1)],
    ),
    "expect_conversations_to_fit": (
        # Two messages of a role token, words and <|end|>: 10 tokens are six words.
        {
            ("sft", "train"): [
                demonstration("one two three", "one two three"),
                demonstration("one two three", "one two three four"),
            ]
        },
        "sft_tokens",
        [("sft", "train", 1)],
    ),
    "expect_chosen_to_differ_when_cut": (
        {
            TRAIN: [
                preference(chosen="one two three four", rejected="one two three five"),
                preference(chosen="one two three four", rejected="one two four five"),
                preference(chosen="one two three", rejected="one two three four"),
                preference(chosen="one two", rejected="one two three"),
            ]
        },
        "preferences_tokens",
        [("preferences", "train", 0), ("preferences", "train", 2)],
    ),
    "expect_no_special_tokens_in_text": (
        {TRAIN: [preference(), preference(chosen="stop <|end|> now"), preference(prompt="<|assistant|>")]},
        "preferences",
        [("preferences", "train", 1), ("preferences", "train", 2)],
    ),
    "expect_no_personal_data": (
        {
            TRAIN: [
                preference(),
                preference(chosen="Write to jane.doe@example.co.uk today."),
                preference(rejected="Call +44 20 7946 0958 or (555) 010-9999."),
                preference(chosen="at 192.168.0.1"),
                preference(chosen="card 4111 1111 1111 1111"),
                preference(chosen="IBAN DE89 3704 0044 0532 0130 00"),
                preference(chosen="SSN 078-05-1120"),
                preference(chosen="key AKIAIOSFODNN7EXAMPLE"),
                preference(chosen="1999-2005, 3.14.15, 12 000 000, version 1.2.3 and x@y"),
            ]
        },
        "preferences",
        [("preferences", "train", n) for n in range(1, 8)],
    ),
    "expect_responses_in_the_prompts_script": (
        {
            TRAIN: [
                preference(),
                preference(
                    prompt="\u041f\u043e\u0447\u0435\u043c\u0443?",
                    chosen="\u041f\u043e\u0442\u043e\u043c\u0443.",
                    rejected="42",
                ),
                preference(
                    prompt="\u041f\u043e\u0447\u0435\u043c\u0443?",
                    chosen="\u041f\u043e\u0442\u043e\u043c\u0443.",
                    rejected="Because.",
                ),
                preference(prompt="\u4e3a\u4ec0\u4e48 why?", chosen="Because.", rejected="\u56e0\u4e3a"),
                preference(chosen="\u56e0\u4e3a"),
            ]
        },
        "preferences",
        [("preferences", "train", 2), ("preferences", "train", 4)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_exactly_the_rows_that_break_it_offend(name: str, tmp_path: Path) -> None:
    rows, table, expected = CASES[name]
    budgets = {"data__max_prompt_tokens": 6, "data__max_response_tokens": 4}
    finding = judge(tmp_path, rows, [name], **budgets)[name, table]
    assert finding.exception is None
    assert offending(finding) == expected
    assert finding.severity == DEFAULT_SEVERITY[name]
    assert not finding.passed
    assert all(row["reason"] and row["id"] is not None for row in finding.offenders)


def test_ordinary_rows_pass_everything(tmp_path: Path) -> None:
    budgets = {"data__max_prompt_tokens": 10, "data__max_response_tokens": 10}
    findings = judge(tmp_path, {}, DEFAULT_SEVERITY, validate_data__max_length_bias=1.0, **budgets)
    assert {name for name, _ in findings} >= set(CASES)
    for finding in findings.values():
        assert (finding.exception, finding.passed, finding.offenders) == (None, True, []), finding.name
        assert finding.rows >= 1


@pytest.mark.parametrize(
    ("name", "rows", "overrides", "observed", "passed"),
    [
        ("expect_enough_training_rows", {}, {"validate_data__min_rows": 1}, 1, True),
        ("expect_enough_training_rows", {}, {"validate_data__min_rows": 2}, 1, False),
        ("expect_rows_in_every_split", {TEST: []}, {}, 2, False),
        (
            "expect_no_dominant_source",
            {TRAIN: [preference(source="a"), preference(source="b")]},
            {"validate_data__max_source_share": 0.4},
            0.5,
            False,
        ),
        (
            "expect_no_dominant_source",
            {TRAIN: [preference(source="a"), preference(source="b")]},
            {"validate_data__max_source_share": 0.5},
            0.5,
            True,
        ),
        # ln(8/2), ln(2/2) and the two ordinary rows' ln(8/3): (1.3863 + 0 + 2 * 0.9808) / 4
        (
            "expect_no_length_bias",
            {TRAIN: [preference(chosen="12345678", rejected="12"), preference(chosen="ab", rejected="cd")]},
            {"validate_data__max_length_bias": 0.8},
            0.83699,
            False,
        ),
    ],
)
def test_figures(
    name: str, rows: Rows, overrides: dict[str, Any], observed: float, passed: bool, tmp_path: Path
) -> None:
    finding = judge(tmp_path, rows, [name], **overrides)[name, "preferences"]
    assert finding.observed == pytest.approx(observed, abs=1e-4)
    assert finding.passed is passed


def test_a_tolerated_share_passes(tmp_path: Path) -> None:
    rows = {TRAIN: [preference(), preference(chosen="")]}
    name = "expect_text_to_be_present"
    checks = {other: "off" for other in DEFAULT_SEVERITY if other not in (name, *UNCONDITIONAL)}
    tolerant = checks | {name: {"severity": "error", "max_fraction": 0.25}}
    finding = judge(tmp_path, rows, [name], validate_data__checks=tolerant)[name, "preferences"]
    assert (finding.offending, finding.rows, finding.passed) == (1, 4, True)


def test_scripts_outside_the_named_ones_offend(tmp_path: Path) -> None:
    rows = {
        TRAIN: [
            preference(),
            preference(chosen="\u03b1 and b, 12%"),
            preference(chosen="caf\u00e9 \U0001f600"),
        ]
    }
    name = "expect_expected_scripts"
    finding = judge(tmp_path, rows, [name], validate_data__scripts=["Latin"])[name, "preferences"]
    assert offending(finding) == [("preferences", "train", 1)]


def test_a_table_without_rows_never_passes(tmp_path: Path) -> None:
    empty: Rows = {("sft", split): [] for split in ("train", "validation", "test")}
    findings = judge(tmp_path, empty, ["expect_text_to_be_present", "expect_enough_training_rows"])
    assert not findings["expect_text_to_be_present", "sft"].passed
    assert not findings["expect_enough_training_rows", "sft"].passed
    assert findings["expect_text_to_be_present", "preferences"].passed


def test_an_expectation_that_cannot_be_evaluated_fails_with_its_reason(tmp_path: Path) -> None:
    tables = prepared(tmp_path / "prepared", {})
    broken = {
        "preferences": relations.relations(tables)["preferences"].replace(", chosen,", ", 1 AS chosen,")
    }
    gate = run.Gate(broken, tmp_path, 0.5)
    params = made_params(validate_data__checks={"expect_no_length_bias": "warn"})
    chat = ChatTokenizer(model(tmp_path / "model"))
    wanted = suites.suites(params.validate_data, suites.Budgets(9, 9), chat, False)["preferences"]
    outcome = gate.run({"preferences": wanted})
    raised = {one.name for one in outcome.findings if one.exception}
    assert "expect_no_length_bias" in raised
    assert raised <= {one.name for one in outcome.failed}


def test_all_aggregates_of_a_relation_take_a_scan_and_one_for_those_that_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    original = run.DuckDBEngine.row

    def counted(self: Any, sql: str) -> tuple[Any, ...]:
        asked.append(sql)
        return original(self, sql)

    monkeypatch.setattr(run.DuckDBEngine, "row", counted)
    basic = ["expect_text_to_be_present", "expect_no_repeated_pairs", "expect_no_contradicting_pairs"]
    basic += ["expect_chosen_to_differ_from_rejected", "expect_no_length_bias", "expect_no_dominant_source"]
    findings = judge(tmp_path, {}, basic, validate_data__tables=["preferences"])
    assert len(findings) == 7  # the six and expect_valid_utf8
    assert len(asked) == 2
    grouping = [sql for sql in asked if "DISTINCT" in sql or "histogram(" in sql]
    assert len(grouping) == 1
    assert "count(*) FILTER" not in grouping[0]


def test_every_expectation_has_a_name_with_a_severity() -> None:
    registered = gx.registered_expectations()
    assert set(registered) == set(DEFAULT_SEVERITY)
    assert all(kind.statement.endswith(".") for kind in registered.values())


def test_a_changed_schema_is_told_by_column(tmp_path: Path) -> None:
    import pyarrow as pa

    from rlhf_pipeline import records

    fields = [field for field in records.PREFERENCES if field.name not in ("margin", "chosen")]
    schema = pa.schema([*fields, pa.field("chosen", pa.int64())])
    rows = {
        ("preferences", split): [preference() | {"chosen": 1}] for split in ("train", "validation", "test")
    }
    tables = prepared(tmp_path / "prepared", rows, preferences=schema)
    gate = run.Gate({files.NAME: files.relation(tables)}, tmp_path, 0.5)
    [finding] = gate.run(suites.schema_suite(made_params().validate_data)).findings
    assert (finding.offending, finding.rows) == (3, 9)
    assert {row["reason"] for row in finding.offenders} == {"column margin is missing"}
