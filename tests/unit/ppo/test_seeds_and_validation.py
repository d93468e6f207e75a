"""Sampling seeds and the bounded validation scores."""

from __future__ import annotations

from typing import Any

from rlhf_pipeline.ppo.seeds import sampling_seed
from rlhf_pipeline.ppo.validation import Sample, keyed, rule_scores, win_scores


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
        Sample(key, row(key), "", reward)
        for key, reward in (("x", 2.0), ("y", 1.0), ("z", 0.5), ("new", 9.0))
    ]
    assert win_scores(samples, {"x": 1.0, "y": 1.0, "z": 1.0}) == {"x": 1.0, "y": 0.5, "z": 0.0}


def test_rule_scores_use_the_gold_rule() -> None:
    good = (
        "Hello, dear customer. I am very sorry about this. I will trace the late parcel. Have a lovely day!"
    )
    samples = [
        Sample("good", row("Hi, Olga here. My blue table is late."), good, 0.0),
        Sample("bad", row("Hi, Olga here. My blue table is late."), "The", 0.0),
    ]
    scores = rule_scores(samples)
    assert scores["good"] == 1.0
    assert scores["bad"] < 0.1
