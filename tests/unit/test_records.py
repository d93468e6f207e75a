"""Prompt ids, splits and the three schemas, against numbers worked out with sha256sum and by hand."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from rlhf_pipeline.records import (
    PREFERENCES,
    PROMPTS,
    SCHEMAS,
    SFT,
    is_judges,
    normalised,
    prompt_id,
    split_of,
)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Describe\n the\tRiver. ", "describe the river."),
        ("ＡＢＣ　x", "abc x"),  # full-width letters and an ideographic space
        ("e\u0301", "é"),
        ("", ""),
    ],
)
def test_texts_that_read_the_same_normalise_to_the_same(text: str, expected: str) -> None:
    assert normalised(text) == expected


def test_the_prompt_id_is_the_hash_of_the_normalised_messages() -> None:
    # printf '[["user", "describe the river."]]' | sha256sum
    assert prompt_id(user("describe the river.")) == "8a47e633f111f6f0"
    assert prompt_id(user(" Describe  the RIVER.")) == "8a47e633f111f6f0"


def test_the_role_and_the_borders_between_messages_count() -> None:
    ids = {
        prompt_id(user("a b")),
        prompt_id([{"role": "system", "content": "a b"}]),
        prompt_id([*user("a"), *user("b")]),
        prompt_id([*user("b"), *user("a")]),
    }
    assert len(ids) == 4


@pytest.mark.parametrize(
    ("identifier", "place"),
    # printf split:a | sha256sum: 487b6b9793fb / 16^12, and so on.
    [("a", 0x487B6B9793FB / 16**12), ("b", 0x7621BA276F65 / 16**12), ("c", 0x038DE6E09873 / 16**12)],
)
def test_a_split_is_a_stretch_of_the_hash(identifier: str, place: float) -> None:
    assert split_of(identifier, 0.1, place + 1e-9) == "test"
    assert split_of(identifier, 0.1, place) == "validation"
    assert split_of(identifier, 0.1, max(0.0, place - 0.1 + 1e-9)) == "validation"
    assert split_of(identifier, 0.0, place) == "train"
    assert split_of(identifier, 1e-9, place - 2e-9) == "train"


def test_the_shares_are_what_was_asked_for() -> None:
    counts = Counter(split_of(str(number), 0.1, 0.15) for number in range(20_000))
    # Four standard deviations of a binomial: sqrt(20000 * 0.1 * 0.9) = 42.4, with 0.15 it is 50.5.
    assert abs(counts["validation"] - 2_000) < 170
    assert abs(counts["test"] - 3_000) < 202
    assert sum(counts.values()) == 20_000


def test_a_larger_test_fraction_only_moves_prompts_into_test() -> None:
    for number in range(2_000):
        if split_of(str(number), 0.1, 0.1) == "test":
            assert split_of(str(number), 0.1, 0.2) == "test"


def test_the_judges_share_is_another_stretch_of_another_hash() -> None:
    # printf judge:a | sha256sum, and so on.
    for identifier, place in (("a", 0xC74F30A05214 / 16**12), ("b", 0xDE508739C139 / 16**12)):
        assert not is_judges(identifier, place)
        assert is_judges(identifier, place + 1e-9)
    train = [str(number) for number in range(20_000) if split_of(str(number), 0.1, 0.15) == "train"]
    mine = sum(is_judges(identifier, 0.3) for identifier in train)
    # Four standard deviations: the share does not depend on the split.
    assert abs(mine - 0.3 * len(train)) < 4 * (0.21 * len(train)) ** 0.5


def test_the_schemas_hold_their_columns_and_refuse_another_type() -> None:
    assert SCHEMAS == {"preferences": PREFERENCES, "sft": SFT, "prompts": PROMPTS}
    row = {
        "prompt_id": "8a47e633f111f6f0",
        "prompt": user("Describe the river."),
        "chosen": "It is calm.",
        "rejected": "It is not.",
        "source": "mine",
        "margin": None,
    }
    assert pa.Table.from_pylist([row], schema=PREFERENCES).to_pylist() == [row]
    with pytest.raises(pa.ArrowTypeError):
        pa.Table.from_pylist([{**row, "chosen": 3}], schema=PREFERENCES)
    nullable = {field.name for field in PREFERENCES if field.nullable}
    assert nullable == {"margin"}
    assert not any(field.nullable for schema in (SFT, PROMPTS) for field in schema)


def test_the_prompt_schema_is_what_verl_s_dataset_reads() -> None:
    assert PROMPTS.names == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    assert [field.name for field in PROMPTS.field("reward_model").type] == ["style", "ground_truth"]
    assert {"prompt_id", "split", "index"} <= {field.name for field in PROMPTS.field("extra_info").type}
