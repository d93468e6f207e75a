"""A workspace as a finished run leaves it, small enough to work out by hand."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline import paths, publish, records

ROOT = Path(__file__).parents[3]


def interval(name: str, value: float, half: float) -> dict[str, float]:
    return {name: value, f"{name}_ci_low": value - half, f"{name}_ci_high": value + half}


EVALUATE = {
    **interval("gold_sft", 0.45, 0.03),
    **interval("gold_policy", 0.70, 0.03),
    **interval("gold_gain", 0.25, 0.04),
    **interval("reward_sft", 0.1, 0.1),
    **interval("reward_policy", 1.9, 0.1),
    **interval("reward_gain", 1.8, 0.1),
    **interval("win_rate", 0.75, 0.04),
    **interval("win_rate_by_gold", 0.75, 0.04),
    **interval("win_rate_by_reward", 0.8, 0.04),
    **interval("win_rate_length_controlled", 0.73, 0.05),
    **interval("pair_accuracy", 0.9, 0.02),
    **interval("response_tokens_sft", 24.0, 1.0),
    **interval("response_tokens_policy", 26.0, 1.0),
    "n_pairs": 450,
    "n_prompts": 3,
    "win_rate_judge": "gold",
    "kl_per_token": 0.07,
    "kl_per_token_se": 0.002,
    "kl_per_sequence": 2.0,
    "kl_per_sequence_se": 0.1,
    "distinct_2_sft": 0.2,
    "distinct_2_policy": 0.15,
    "repetition_sft": 0.01,
    "repetition_policy": 0.01,
    "wall_s": 20.0,
    "startup_s": 5.0,
}
EVENTS = [
    {"kind": "committed", "step": 4, "score": 0.6, "good": True},
    {"kind": "rollback", "step": 8, "to_step": 4, "reason": "dropped by 9%"},
    {"kind": "unheard_of", "step": 9, "why": "tests"},
]
SAMPLES = [
    {
        "prompt_id": str(number),
        "sample": 0,
        "source": "synthetic",
        "prompt": f"Question {number} <script>alert(1)</script> about a {thing}",
        "response_sft": "before",
        "response_policy": f"after {number}",
        "gold_sft": 0.5,
        "gold_policy": policy,
        "reward_sft": 0.0,
        "reward_policy": 1.0,
    }
    for number, (policy, thing) in enumerate([(0.9, "lamp"), (0.2, "chair"), (0.6, "kettle")])
]
DETAILS = {
    "by_source": {"synthetic": {"accuracy": 0.9, "pairs": 450}},
    "by_length_gap": {
        "about equal": {"accuracy": 0.8, "pairs": 50},
        "chosen longer": {"accuracy": 0.9, "pairs": 200},
        "chosen shorter": {"accuracy": 0.91, "pairs": 200},
    },
    "calibration": {"bins": [{"confidence": 0.8, "accuracy": 0.9, "pairs": 450}], "error": 0.1},
    "margins": {"edges": [-1.0, 0.0, 1.0], "counts": [45, 405]},
}
PPO_CSV = "step,kl,validation_gold,validation_reward\n0,,0.45,0.1\n1,0.02,,\n2,0.05,0.6,1.2\n3,0.07,0.7,1.9\n"


@pytest.fixture
def workspace(tmp_path: Any, monkeypatch: Any) -> Any:
    """The current directory, holding params.yaml, metrics, one curve, events, samples and two manifests."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", paths.PARAMS)
    publish.write_json(paths.metrics("evaluate"), EVALUATE)
    ppo = {"steps": 3, "best_step": 3, "best_score": 0.7, "rollbacks": 1, "wall_s": 100.0, "startup_s": 60.0}
    publish.write_json(paths.metrics("ppo"), ppo)
    publish.write_text(paths.curve("ppo"), PPO_CSV)
    with publish.publishing(paths.EVALUATION, {"stage": "evaluate"}) as out:
        publish.write_text(out / "samples.jsonl", "".join(json.dumps(row) + "\n" for row in SAMPLES))
        publish.write_json(out / "reward_model.json", DETAILS)
    with publish.publishing(paths.POLICY, {"stage": "ppo", "step": 3}) as out:
        publish.write_text(out / "events.jsonl", "".join(json.dumps(event) + "\n" for event in EVENTS))
    table = paths.table(paths.VALIDATED, "preferences", "train")
    table.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([], records.PREFERENCES), table)
    return tmp_path
