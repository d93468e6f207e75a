"""The verdict: only intervals away from zero decide, and what would mislead is said."""

from typing import Any

import pytest

from rlhf_pipeline.evaluation.table import aligned, comparison_table, with_interval
from rlhf_pipeline.evaluation.verdict import reference_label, verdict

FIGURES = {
    "win_rate_judge": "gold",
    "win_rate": 0.7,
    "win_rate_ci_low": 0.65,
    "win_rate_ci_high": 0.75,
    "win_rate_length_controlled": 0.68,
    "gold_sft": 0.4,
    "gold_policy": 0.5,
    "gold_gain": 0.1,
    "gold_gain_ci_low": 0.05,
    "gold_gain_ci_high": 0.15,
    "reward_gain_ci_low": 0.5,
    "n_prompts": 100,
    "response_tokens_sft": 20.0,
    "response_tokens_policy": 22.0,
    "distinct_2_sft": 0.4,
    "distinct_2_policy": 0.3,
    "repetition_sft": 0.0,
    "repetition_policy": 0.0,
}


@pytest.mark.parametrize(
    ("low", "high", "direction"),
    [(0.01, 0.2, "better"), (-0.2, -0.01, "worse"), (-0.1, 0.1, "undecided"), (0.0, 0.2, "undecided")],
)
def test_direction_needs_the_whole_interval(low: Any, high: Any, direction: Any) -> None:
    found = verdict({**FIGURES, "gold_gain_ci_low": low, "gold_gain_ci_high": high})
    assert found.direction == direction


def test_sentence_and_numbers() -> None:
    found = verdict(FIGURES)
    assert (
        found.sentence == "The policy is better than SFT: it wins 70% of 100 unseen prompts by the gold rule."
    )
    assert found.numbers == "Mean gold +0.100 (95% +0.050 to +0.150)."
    assert found.caveats == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"gold_gain_ci_low": -0.01}, "reward hacking"),
        ({"win_rate_length_controlled": 0.45}, "equal length"),
        ({"distinct_2_policy": 0.1}, "Diversity"),
        ({"repetition_policy": 0.3}, "repeat"),
    ],
)
def test_caveats(change: Any, word: Any) -> None:
    assert [word in caveat for caveat in verdict({**FIGURES, **change}).caveats] == [True]


def test_the_other_side_is_found_by_its_label() -> None:
    assert reference_label({"response_tokens_policy": 1, "response_tokens_against": 2}) == "against"


def test_cells() -> None:
    metrics = {"a": 1.0, "a_ci_low": 0.5, "a_ci_high": 1.5, "b": 0.25, "b_se": 0.125, "c": 2.0}
    assert [with_interval(metrics, name) for name in "abcd"] == [
        "1.000 [0.500, 1.500]",
        "0.250 +- 0.125",
        "2.000",
        "",
    ]


def test_table_has_both_columns() -> None:
    lines = comparison_table({"sft": "models/sft", "policy": "models/policy"}, FIGURES).splitlines()
    assert lines[0].split() == ["models/sft", "models/policy"]
    assert lines[1].split() == ["gold", "score", "0.400", "0.500"]
    assert aligned([("a", "b"), ("ccc", "d")]) == "a    b\nccc  d"
