"""The synthetic data: decided by its seed, imperfect demonstrations, pairs that teach the gold rule."""

from statistics import mean

import pytest

from rlhf_pipeline.data import grammar, synthetic
from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.rewards.gold import gold_score

ROWS = synthetic.make(n_prompts=1000, demonstrations_per_prompt=2, pairs_per_prompt=2, seed=7)


def test_every_table_has_its_rows_and_columns() -> None:
    assert {name: len(rows) for name, rows in ROWS.items()} == {
        "preferences": 2000,
        "sft": 2000,
        "prompts": 1000,
    }
    assert set(ROWS["preferences"][0]) == {"prompt", "chosen", "rejected", "source"}
    assert set(ROWS["sft"][0]) == {"messages", "source"}
    assert set(ROWS["prompts"][0]) == {"prompt", "ground_truth", "ability"}


def test_the_seed_decides_everything() -> None:
    assert synthetic.make(50, 1, 1, seed=3) == synthetic.make(50, 1, 1, seed=3)
    assert synthetic.make(50, 1, 1, seed=3) != synthetic.make(50, 1, 1, seed=4)


def test_prompts_differ_and_say_what_they_want() -> None:
    texts = [row["prompt"][0]["content"] for row in ROWS["prompts"]]
    assert len({text.lower() for text in texts}) == len(texts)
    assert [grammar.intent_of(text) for text in texts] == [row["ground_truth"] for row in ROWS["prompts"]]
    counts = [sum(row["ground_truth"] == intent for row in ROWS["prompts"]) for intent in grammar.INTENTS]
    assert max(counts) - min(counts) <= 1


def test_demonstrations_are_well_formed_but_of_mixed_manners() -> None:
    scores = [gold_score(row["messages"][0]["content"], row["messages"][1]["content"]) for row in ROWS["sft"]]
    assert 0.45 < mean(scores) < 0.65
    assert min(scores) > 0.0
    assert max(scores) == pytest.approx(1.0)


def test_preferences_follow_gold_with_a_few_slips() -> None:
    agrees = []
    for row in ROWS["preferences"]:
        chosen, rejected = (
            gold_score(row["prompt"][0]["content"], row[side]) for side in ("chosen", "rejected")
        )
        assert abs(chosen - rejected) >= synthetic.SMALLEST_GOLD_GAP
        agrees.append(chosen > rejected)
    assert 0.95 < mean(agrees) < 0.995


def test_pairs_show_every_fault_that_gold_punishes() -> None:
    rejected = [row["rejected"] for row in ROWS["preferences"]]
    sentences = [[part for part in grammar.MEANINGS if part in text] for text in rejected]
    assert any(text[-1] not in ".!?" for text in rejected), "cut or unended"
    assert any(len(text.split()) == 1 for text in rejected), "one word"
    assert any(text.count(found[0]) > 1 for text, found in zip(rejected, sentences, strict=True) if found), (
        "repeated"
    )
    assert any(
        len(found) < 3 and len(text.split()) > 10 for text, found in zip(rejected, sentences, strict=True)
    )
    assert all(text.strip() for row in ROWS["preferences"] for text in (row["chosen"], row["rejected"]))
    assert all(row["chosen"] != row["rejected"] for row in ROWS["preferences"])


def test_too_many_prompts_are_refused_by_name() -> None:
    with pytest.raises(ParamsError, match=r"data\.synthetic\.n_prompts"):
        synthetic.make(10**6, 1, 1, seed=1)
