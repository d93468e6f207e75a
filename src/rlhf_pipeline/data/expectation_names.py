"""The names of all expectations of the gate and the severity each has unless params.yaml says otherwise.

Light on purpose: params are checked against it without importing Great Expectations. What the names
mean is in gate/expectations/ and docs/data.md.
"""

from __future__ import annotations

from typing import Literal

DEFAULT_SEVERITY: dict[str, Literal["error", "warn"]] = {
    "expect_schema": "error",
    "expect_valid_utf8": "error",
    "expect_enough_training_rows": "error",
    "expect_rows_in_every_split": "error",
    "expect_no_dominant_source": "warn",
    "expect_prompts_to_be_distinct": "warn",
    "expect_text_to_be_present": "error",
    "expect_turns_in_order": "error",
    "expect_no_control_characters": "error",
    "expect_no_mojibake": "warn",
    "expect_chosen_to_differ_from_rejected": "error",
    "expect_chosen_to_differ_from_rejected_in_substance": "warn",
    "expect_no_repeated_pairs": "warn",
    "expect_no_contradicting_pairs": "error",
    "expect_no_length_bias": "warn",
    "expect_prompts_in_one_split": "error",
    "expect_normalised_prompts_in_one_split": "error",
    "expect_no_near_duplicates_across_splits": "warn",
    "expect_no_benchmark_text": "error",
    "expect_pad_to_differ_from_eos": "error",
    "expect_template_to_render": "error",
    "expect_one_bos": "error",
    "expect_eos_to_be_trained": "error",
    "expect_prompts_to_fit": "error",
    "expect_responses_to_fit": "warn",
    "expect_conversations_to_fit": "error",
    "expect_chosen_to_differ_when_cut": "error",
    "expect_no_special_tokens_in_text": "error",
    "expect_no_personal_data": "warn",
    "expect_responses_in_the_prompts_script": "warn",
    "expect_expected_scripts": "warn",
}
UNCONDITIONAL = ("expect_schema", "expect_valid_utf8")
"""Never relaxed: where they do not hold, nothing else can be evaluated."""
