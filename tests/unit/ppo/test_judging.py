"""Who judges validations: the rule where there is one, never the reward model that PPO trains against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline.errors import DataError, ParamsError
from rlhf_pipeline.params import load
from rlhf_pipeline.ppo.judging import judge_of, validation_score

PRESET = Path(__file__).parents[3] / "presets" / "tiny-cpu.yaml"
RULE = {"style": "rule", "ground_truth": "42"}
MODEL = {"style": "model", "ground_truth": ""}


def prompts(folder: Path, *rules: dict[str, str]) -> Path:
    rows = [{"ability": "math", "reward_model": rule} for rule in rules]
    pq.write_table(pa.Table.from_pylist(rows), folder / "validation.parquet")
    return folder / "validation.parquet"


@pytest.mark.parametrize(
    ("score", "source", "ruled", "judged", "expected"),
    [
        ("auto", "reward_model", True, False, "gold"),
        ("gold", "reward_model", True, True, "gold"),
        ("auto", "reward_model", False, True, "win_rate"),
        ("win_rate", "reward_model", True, True, "win_rate"),
        ("auto", "function", False, False, "win_rate"),
        ("reward", "reward_model", False, False, "reward"),
    ],
)
def test_the_score(score: str, source: str, ruled: bool, judged: bool, expected: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"ppo.validation.score": score, "rollback.enabled": score != "reward"}
    if source == "function":
        changes |= {"ppo.adv_estimator": "grpo", "ppo.rollout.n": 4, "ppo.kl.reward.coef": 0.0}
        changes |= {"ppo.reward.source": source, "ppo.reward.function_path": "a.py"}
        changes["ppo.reward.function_name"] = "score"
    file = prompts(tmp_path, RULE, RULE if ruled else MODEL)
    assert validation_score(load(PRESET, changes), file, tmp_path if judged else None) == expected


@pytest.mark.parametrize("score", ["auto", "win_rate"])
def test_the_model_trained_against_is_no_judge(score: str, tmp_path: Path) -> None:
    params = load(PRESET, {"ppo.validation.score": score})
    file = prompts(tmp_path, RULE, MODEL) if score == "auto" else prompts(tmp_path, RULE)
    with pytest.raises(ParamsError, match=r"evaluate\.judge: none.*Set evaluate\.judge to train"):
        validation_score(params, file, None)


def test_gold_without_rules_is_refused_even_with_a_judge(tmp_path: Path) -> None:
    params = load(PRESET, {"ppo.validation.score": "gold"})
    with pytest.raises(ParamsError, match=r"ppo\.validation\.score: gold"):
        validation_score(params, prompts(tmp_path, RULE, MODEL), tmp_path)


def test_a_stage_that_has_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="dvc repro judge"):
        judge_of(tmp_path)
