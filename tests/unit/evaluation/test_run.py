"""A whole small evaluation with real models: the promised names, equal numbers twice, no gain over itself."""

import shutil
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline.errors import DataError
from rlhf_pipeline.evaluation import generate as cache
from rlhf_pipeline.evaluation.run import evaluate
from rlhf_pipeline.evaluation.verdict import verdict
from rlhf_pipeline.params import parse
from rlhf_pipeline.publish import publishing


@pytest.fixture
def run(tiny: Any, data: Any, params: Any, tmp_path: Any, monkeypatch: Any) -> Any:
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")

    def evaluated(policy: Any = tiny.policy, settings: Any = params, **options: Any) -> Any:
        options = {"reward_model": tiny.reward_model, "judge": None, "data": data} | options
        return evaluate(settings, policy, tiny.sft, **options)

    return evaluated


def test_promised_names_are_there(run: Any) -> None:
    found = run()
    for name in ("gold_sft", "gold_policy", "reward_sft", "reward_policy", "win_rate", "pair_accuracy"):
        value, low, high = (found.metrics[f"{name}{end}"] for end in ("", "_ci_low", "_ci_high"))
        assert low <= value <= high
    for name in ("kl_per_token", "kl_per_token_se", "kl_per_sequence", "kl_per_sequence_se"):
        assert found.metrics[name] > 0
    for name in ("response_tokens_sft", "response_tokens_policy", "distinct_2_sft", "distinct_2_policy"):
        assert found.metrics[name] > 0
    assert found.metrics["n_prompts"] == len(found.samples) == 8
    assert found.metrics["win_rate_judge"] == "gold"
    assert set(found.samples[0]) >= {"prompt", "response_sft", "response_policy", "gold_policy", "reward_sft"}
    assert found.details["by_source"]["synthetic"]["pairs"] == found.metrics["n_pairs"]


def test_two_runs_give_the_same_numbers(run: Any, tmp_path: Any) -> None:
    first = run()
    for cached in (tmp_path / "cache").iterdir():
        cached.unlink()
    assert run() == first


def test_a_policy_has_no_gain_over_itself(run: Any, tiny: Any) -> None:
    metrics = run(policy=tiny.sft).metrics
    assert metrics["win_rate"] == metrics["win_rate_ci_low"] == 0.5
    assert metrics["reward_gain"] == metrics["kl_per_token"] == 0.0
    assert verdict(metrics).direction == "undecided"


def test_several_samples_and_a_second_judge(run: Any, tiny: Any, params: Any) -> None:
    more = parse(params.model_dump(mode="json"), {"evaluate.samples_per_prompt": 2})
    found = run(settings=more, judge=tiny.reward_model)
    assert len(found.samples) == 16
    assert [row["sample"] for row in found.samples[:4]] == [0, 1, 0, 1]
    assert found.samples[0]["response_policy"] != found.samples[1]["response_policy"]
    assert found.metrics["judge_policy"] == found.metrics["reward_policy"]
    assert found.metrics["judge_pair_accuracy"] == found.metrics["pair_accuracy"]
    assert {"pass_at_2_policy", "best_of_n_gold_policy", "win_rate_by_judge"} <= set(found.metrics)


def test_a_missing_reward_model_is_named(run: Any, tiny: Any, data: Any, params: Any, tmp_path: Any) -> None:
    with pytest.raises(DataError, match="nowhere"):
        evaluate(params, tiny.policy, tiny.sft, reward_model=tmp_path / "nowhere", judge=None, data=data)


def test_without_a_reward_model_the_rule_judges_alone(
    tiny: Any, data: Any, params: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    with publishing(tmp_path / "none", {"source": "none"}):
        pass
    more = parse(params.model_dump(mode="json"), {"evaluate.samples_per_prompt": 2})
    empty = tmp_path / "none"
    found = evaluate(more, tiny.policy, tiny.sft, reward_model=empty, judge=empty, data=data)
    assert found.metrics["win_rate_judge"] == "gold"
    assert not [name for name in found.metrics if "reward" in name or "pair" in name]
    assert verdict(found.metrics).sentence


def test_without_rule_and_models_nothing_is_judged(
    tiny: Any, data: Any, params: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    unruled = shutil.copytree(data, tmp_path / "data")
    table = pq.read_table(unruled / "prompts/test.parquet")
    rows = [{**row, "reward_model": {"style": "model", "ground_truth": ""}} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), unruled / "prompts/test.parquet")
    with publishing(tmp_path / "none", {"source": "none"}):
        pass
    with pytest.raises(DataError, match="nothing judges the responses"):
        evaluate(params, tiny.policy, tiny.sft, reward_model=tmp_path / "none", judge=None, data=unruled)
