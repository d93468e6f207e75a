"""Sampling seeds and the bounded validation scores."""

from __future__ import annotations

from typing import Any

import pytest

from rlhf_pipeline.ppo.seeds import batch_order, sampling_seed
from rlhf_pipeline.ppo.validation import Sample, gold_mean, judged_by, keyed, rule_scores, win_scores


def row(text: str) -> dict[str, Any]:
    return {
        "data_source": "synthetic",
        "prompt": [{"role": "user", "content": text}],
        "ability": "desk_reply",
        "reward_model": {"style": "rule", "ground_truth": "late"},
        "extra_info": {"index": 0, "split": "validation"},
    }


def test_a_seed_depends_on_run_step_prompt_and_sample_only() -> None:
    seed = sampling_seed(7, 3, 11, 0, validate=False)
    assert seed == sampling_seed(7, 3, 11, 0, validate=False)
    others = {
        sampling_seed(8, 3, 11, 0, validate=False),
        sampling_seed(7, 4, 11, 0, validate=False),
        sampling_seed(7, 3, 12, 0, validate=False),
        sampling_seed(7, 3, 11, 1, validate=False),
    }
    assert len(others) == 4
    assert seed not in others
    assert 0 <= seed < 2**31


def test_validations_share_their_random_numbers() -> None:
    assert sampling_seed(7, 3, 11, 0, validate=True) == sampling_seed(7, 99, 11, 0, validate=True)


def test_samples_are_paired_with_their_rows_and_padding_is_left_out() -> None:
    rows = {"a": row("a"), "b": row("b")}
    samples = keyed(["a", "b", "a", "?"], ["r1", "r2", "r3", "r4"], [1.0, 2.0, 3.0, 4.0], rows)
    assert [sample.response for sample in samples] == ["r1", "r2", "r3"]
    assert samples[0].key.endswith("/0")
    assert samples[2].key == samples[0].key.replace("/0", "/1")


def test_win_scores_by_hand() -> None:
    samples = [
        Sample(key, row(key), "", 0.0, judged)
        for key, judged in (("x", 2.0), ("y", 1.0), ("z", 0.5), ("new", 9.0))
    ]
    assert win_scores(samples, {"x": 1.0, "y": 1.0, "z": 1.0}) == {"x": 1.0, "y": 0.5, "z": 0.0}


def test_rounding_is_no_win() -> None:
    """The same response scored twice in float32 differs by some 1e-7."""
    samples = [Sample(key, row(key), "", 0.0, -2.5673769) for key in ("same", "worse", "better")]
    first = {"same": -2.5673771, "worse": -2.5672, "better": -2.5675}
    assert win_scores(samples, first) == {"same": 0.5, "worse": 0.0, "better": 1.0}
    lost = [Sample("x", row("x"), "", 0.0, float("nan"))]
    assert win_scores(lost, {"x": 1.0}) == {"x": 0.0}, "no number is no tie"


def test_a_batch_is_put_back_into_the_order_of_the_data() -> None:
    fetched = {"b1-x": 0, "a9-y": 1, "c": 2}
    keys = ["c_0_0", "a9-y_1_0", "padding", "b1-x_0_10", "b1-x_0_2", "a9-y_0_0"]
    assert [keys[place] for place in batch_order(keys, fetched)] == [
        "b1-x_0_2",
        "b1-x_0_10",
        "a9-y_0_0",
        "a9-y_1_0",
        "c_0_0",
        "padding",
    ]
    assert batch_order([], {}) == []


def test_rule_scores_use_the_gold_rule() -> None:
    good = (
        "Hello, dear customer. I am very sorry about this. I will trace the late parcel. Have a lovely day!"
    )
    samples = [
        Sample("good", row("Hi, Olga here. My blue table is late."), good, 0.0, 0.0),
        Sample("bad", row("Hi, Olga here. My blue table is late."), "The", 0.0, 0.0),
    ]
    scores = rule_scores(samples)
    assert scores["good"] == 1.0
    assert scores["bad"] < 0.1


def test_a_held_out_judge_takes_the_place_of_the_reward_in_win_rates() -> None:
    samples = [Sample(key, row(key), response, 5.0, 5.0) for key, response in (("x", "long"), ("y", "no"))]
    judged = judged_by(lambda prompts, texts: [len(text) + len(prompts) for text in texts], samples)
    assert [(sample.reward, sample.judged) for sample in judged] == [(5.0, 6.0), (5.0, 4.0)]
    assert win_scores(judged, {"x": 5.0, "y": 5.0}) == {"x": 1.0, "y": 0.0}
    assert judged_by(lambda prompts, texts: [], []) == []


def test_gold_of_rollouts_is_measured_only_where_every_row_has_a_rule() -> None:
    rows = [row("Hi, Olga here. My blue table is late.")] * 2
    good = (
        "Hello, dear customer. I am very sorry about this. I will trace the late parcel. Have a lovely day!"
    )
    bad = rule_scores([Sample("bad", rows[0], "The", 0.0, 0.0)])["bad"]
    assert gold_mean(rows, [good, "The"]) == pytest.approx((1.0 + bad) / 2)
    assert gold_mean([rows[0], {**rows[1], "ability": "chat"}], [good, good]) is None
    assert gold_mean([], []) is None
