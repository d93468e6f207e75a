"""The reward model: what it reads, its gate, its interval, and a real small run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import paths
from rlhf_pipeline.errors import DataError, ParamsError, StageError
from rlhf_pipeline.params import Params
from rlhf_pipeline.ppo.judging import judge_of
from rlhf_pipeline.publish import verify, without_files
from rlhf_pipeline.records import is_judges
from rlhf_pipeline.rendering import scored_ids
from rlhf_pipeline.train.judge import run_judge
from rlhf_pipeline.train.reward_model import Role, pairs_of, run_reward_model, wilson


def changed(params: Params, **values: Any) -> Params:
    return params.model_copy(update={"reward_model": params.reward_model.model_copy(update=values)})


@pytest.mark.parametrize(
    ("share", "n", "low", "high"),
    # By hand from (p + z2/2n -+ z sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n), z2 = 3.8415.
    [(0.9, 100, 0.8256, 0.9448), (1.0, 50, 0.9287, 1.0), (0.0, 50, 0.0, 0.0713), (0.5, 10, 0.2366, 0.7634)],
)
def test_the_interval_of_a_share(share: float, n: int, low: float, high: float) -> None:
    assert wilson(share, n) == pytest.approx((low, high), abs=5e-5)


def test_pairs_are_the_tokens_that_ppo_scores_and_a_seed_swaps_half(inputs: Path) -> None:
    import pyarrow.parquet as pq
    from transformers import AutoTokenizer

    from rlhf_pipeline.train.reward_driver import pairs

    tokenizer = AutoTokenizer.from_pretrained(inputs / paths.BASE_MODEL)
    file = inputs / paths.table(paths.VALIDATED, "preferences", "train")
    plain, shuffled = (pairs(str(file), tokenizer, seed).to_list() for seed in (None, 5))
    first = pq.read_table(file).to_pylist()[0]
    for side in ("chosen", "rejected"):
        assert plain[0][f"{side}_input_ids"] == scored_ids(tokenizer, first["prompt"], first[side])
        assert plain[0][f"{side}_input_ids"][-1] == tokenizer.eos_token_id
    swapped = [
        pair["chosen_input_ids"] == other["rejected_input_ids"]
        for pair, other in zip(plain, shuffled, strict=True)
    ]
    assert 0.4 < sum(swapped) / len(swapped) < 0.6
    assert all(swap or pair == other for swap, pair, other in zip(swapped, plain, shuffled, strict=True))


def test_judge_and_reward_model_share_no_prompt(inputs: Path, small_params: Params) -> None:
    import pyarrow.parquet as pq
    from transformers import AutoTokenizer

    from rlhf_pipeline.train.reward_driver import pairs

    tokenizer = AutoTokenizer.from_pretrained(inputs / paths.BASE_MODEL)
    file = inputs / paths.table(paths.VALIDATED, "preferences", "train")
    trained = small_params.model_copy(
        update={"evaluate": small_params.evaluate.model_copy(update={"judge": "train", "judge_share": 0.3})}
    )
    role = Role("judge", paths.JUDGE, "train", "", Path(), 1, False)
    mine, theirs = (pairs_of(each, trained) for each in (role, role._replace(stage="reward_model")))
    assert (mine, theirs) == ({"share": 0.3, "judge": True}, {"share": 0.3, "judge": False})
    assert pairs_of(role._replace(stage="reward_model"), small_params) is None
    judged, fitted, every = (
        pairs(str(file), tokenizer, None, part).to_list() for part in (mine, theirs, None)
    )
    rows = pq.read_table(file).to_pylist()
    own = {row["prompt_id"] for row in rows if is_judges(row["prompt_id"], 0.3)}
    assert judged == [pair for pair, row in zip(every, rows, strict=True) if row["prompt_id"] in own]
    assert fitted == [pair for pair, row in zip(every, rows, strict=True) if row["prompt_id"] not in own]
    assert 0.2 < len(judged) / len(every) < 0.4


def test_a_judge_is_none_or_given(workspace: Path, small_params: Params) -> None:
    run_judge(small_params, "digest")
    assert without_files(paths.JUDGE)
    assert json.loads(paths.metrics("judge").read_text()) == {"steps": 0}
    assert judge_of(workspace) is None
    mine = workspace / "mine"
    params = small_params.model_copy(
        update={
            "evaluate": small_params.evaluate.model_copy(update={"judge": "path", "judge_path": str(mine)})
        }
    )
    shutil.copytree(paths.BASE_MODEL, mine)
    with pytest.raises(DataError, match=r"evaluate\.judge_path: .* expected a"):
        run_judge(params, "digest")
    assert without_files(paths.JUDGE), "a refused folder leaves the published judge alone"
    config = mine / "config.json"
    values = {**json.loads(config.read_text()), "architectures": ["Qwen2ForSequenceClassification"]}
    config.write_text(json.dumps({**values, "id2label": {"0": "score"}}))
    run_judge(params, "digest")
    assert verify(paths.JUDGE)["source"] == "path"
    assert judge_of(workspace) == workspace / paths.JUDGE


@pytest.mark.slow
def test_a_trained_judge_learns_from_its_share_alone(workspace: Path, small_params: Params) -> None:
    shutil.copytree(paths.BASE_MODEL, paths.SFT_MODEL)
    evaluate = small_params.evaluate.model_copy(update={"judge": "train", "judge_share": 0.001})
    with pytest.raises(ParamsError, match=r"rows for the judge \(evaluate\.judge_share\)"):
        run_judge(small_params.model_copy(update={"evaluate": evaluate}), "digest")
    evaluate = evaluate.model_copy(update={"judge_share": 0.5})
    run_judge(small_params.model_copy(update={"evaluate": evaluate}), "digest")
    assert verify(paths.JUDGE)["seed"] == small_params.seed + 1
    assert "Judge" in (paths.JUDGE / "README.md").read_text()
    assert json.loads(paths.metrics("judge").read_text())["steps"] == 4
    assert len(paths.curve("judge").read_text().splitlines()) == 5
    assert not paths.REWARD_MODEL.exists()


def test_a_folder_that_is_no_reward_model_is_refused(workspace: Path, small_params: Params) -> None:
    mine = workspace / "mine"
    params = changed(small_params, source="path", path=str(mine))
    with pytest.raises(DataError, match=r"holds no config\.json"):
        run_reward_model(params, "digest")
    shutil.copytree(paths.BASE_MODEL, mine)
    with pytest.raises(DataError, match=r"Qwen2ForCausalLM.*expected a"):
        run_reward_model(params, "digest")
    config = mine / "config.json"
    values = {**json.loads(config.read_text()), "architectures": ["Qwen2ForSequenceClassification"]}
    config.write_text(json.dumps(values))
    with pytest.raises(DataError, match="with 2 labels"):
        run_reward_model(params, "digest")
    config.write_text(json.dumps({**values, "id2label": {"0": "score"}}))
    run_reward_model(params, "digest")
    assert verify(paths.REWARD_MODEL)["source"] == "path"


@pytest.mark.slow
def test_a_real_run_is_held_to_its_gate_and_publishes_a_strict_classifier(
    workspace: Path, small_params: Params
) -> None:
    from transformers import AutoModelForSequenceClassification

    shutil.copytree(paths.BASE_MODEL, paths.SFT_MODEL)
    with pytest.raises(StageError, match=r"less than reward_model\.min_pair_accuracy \(99\.0%\)"):
        run_reward_model(changed(small_params, min_pair_accuracy=0.99), "digest")
    assert not paths.REWARD_MODEL.exists()
    run_reward_model(small_params, "digest")
    verify(paths.REWARD_MODEL)
    model, report = AutoModelForSequenceClassification.from_pretrained(
        paths.REWARD_MODEL, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.config.num_labels == 1
    figures = json.loads(paths.metrics("reward_model").read_text())
    assert figures["steps"] == 4
    assert (
        0.0
        <= figures["pair_accuracy_ci_low"]
        < figures["pair_accuracy"]
        < figures["pair_accuracy_ci_high"]
        <= 1.0
    )
