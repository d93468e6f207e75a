"""Diversity, likeness, repetition and refusals, counted by hand."""

from typing import Any

import pytest

from rlhf_pipeline.evaluation.text import distinct_n, is_refusal, repetition, self_similarity, text_metrics


def test_distinct_counts_over_all_texts() -> None:
    assert distinct_n(["a b a b", "a b"], 2) == pytest.approx(2 / 4)  # ab ba ab | ab
    assert distinct_n(["one"], 2) == 0.0


def test_self_similarity_of_equal_other_and_half_alike_texts() -> None:
    assert self_similarity(["a b c", "a b c", "a b c"]) == pytest.approx(1.0)
    assert self_similarity(["a b", "c d"]) == pytest.approx(0.0)
    assert self_similarity(["a b c", "a b d"]) == pytest.approx(0.5)  # one of two bigrams shared
    assert self_similarity(["a b c", "word"]) == 0.0


def test_repetition_is_the_share_of_trigrams_seen_before() -> None:
    assert repetition("a a a a a") == pytest.approx(2 / 3)
    assert repetition("a b c d") == 0.0
    assert repetition("too short") == 0.0


@pytest.mark.parametrize(
    "text", ["I'm sorry, but no.", "I cannot help.", "  As an AI model", "Unfortunately, I"]
)
def test_refusals(text: Any) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize(
    "text", ["We are sorry that it broke.", "I can help.", "", "Sorry seems hard to say"]
)
def test_not_refusals(text: Any) -> None:
    assert not is_refusal(text)


def test_metrics_carry_the_side_in_their_names() -> None:
    found = text_metrics(["a b", ""], "sft")
    assert found["empty_rate_sft"] == 0.5
    assert found["distinct_2_sft"] == 1.0
    assert all(name.endswith("_sft") for name in found)
