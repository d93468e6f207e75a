"""The real sets beside the repository, where they exist: recognised, and with the right row counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.data.prepare import prepare

from .made import REAL_DATA, params

pytestmark = pytest.mark.skipif(not REAL_DATA.is_dir(), reason="the real data sets are not here")

# path, options -> shape and (preferences, sft, prompts, ties, set aside)
SETS: list[tuple[str, dict[str, Any], str, tuple[int, int, int, int, int]]] = [
    ("gsm8k/train.jsonl", {}, "question_answer", (0, 7473, 7473, 0, 0)),
    ("gsm8k/test.jsonl", {}, "question_answer", (0, 1319, 1319, 0, 0)),
    ("gsm8k/example_model_solutions.jsonl", {}, "graded_solutions", (2429, 887, 887, 432, 0)),
    ("pandalm/testset-v1.json", {"bad_rows": "set_aside"}, "pandalm", (888, 401, 158, 105, 6)),
    ("qa-feedback/dev_feedback.json", {"max_passages": 0}, "qa_feedback", (2616, 488, 488, 12, 0)),
    ("self-instruct-seed/seed_tasks.jsonl", {}, "instances", (0, 175, 0, 0, 0)),
    ("self-instruct-seed/user_oriented_instructions.jsonl", {}, "instances", (0, 252, 0, 0, 0)),
]


@pytest.mark.parametrize(("path", "options", "shape", "counts"), SETS, ids=[one[0] for one in SETS])
def test_a_real_set_has_the_right_row_counts(
    path: str, options: dict[str, Any], shape: str, counts: tuple[int, ...], tmp_path: Path
) -> None:
    source = {"kind": "auto", "path": path, "name": "real", "weight": 1.0, "limit": None, "mapping": None}
    data = params(data__raw=str(REAL_DATA), data__sources=[{**source, "options": options}]).data
    facts = prepare(data, 7, REAL_DATA, tmp_path)["real"]
    assert facts["shape"] == shape
    keys = ("preferences_rows", "sft_rows", "prompts_rows", "undecided", "set_aside")
    assert tuple(facts[key] for key in keys) == counts
