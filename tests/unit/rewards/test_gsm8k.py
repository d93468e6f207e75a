"""The GSM8K rule on numbers written in the ways that models write them."""

import pytest

from rlhf_pipeline.rewards.gsm8k import gsm8k_score


@pytest.mark.parametrize(
    ("response", "truth", "expected"),
    [
        ("48 / 2 = 24 and 48 + 24 = 72\n#### 72", "72", 1.0),
        ("#### 72", "so she sold 48 + 24 = 72\n#### 72", 1.0),
        ("it is 1,200.", "1200", 1.0),
        ("#### $18.50", "18.5", 1.0),
        ("#### -3", "-3", 1.0),
        ("#### 3", "-3", 0.0),
        ("first 72, then #### 71", "72", 0.0),
        ("#### none", "72", 0.0),
        ("", "72", 0.0),
    ],
)
def test_the_final_number_counts(response: str, truth: str, expected: float) -> None:
    assert gsm8k_score(response, truth) == expected
