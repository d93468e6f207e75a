"""The critic's value equals the reward model's score inside verl's own FSDP2 engine.

A process of its own, because VERL_PLATFORM is read while verl is imported; one engine step with
gloo and world size 1, packed and padded.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, Qwen2Config

from rlhf_pipeline.backend.env import worker_env

ENGINE = """
import json, os, sys
import torch
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine import EngineRegistry
from rlhf_pipeline import backend

folder, sequences = sys.argv[1], json.loads(sys.argv[2])
os.environ.update(RANK="0", WORLD_SIZE="1", DIST_INIT_METHOD=f"file://{folder}/store")
initialize_global_process_group_ray()

def jagged(rows):
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)

def last_values(packed, forward_only):
    engine = EngineRegistry.new(
        model_type="value_model",
        backend="fsdp2",
        model_config=HFModelConfig(
            path=folder, load_tokenizer=False, model_type="value_model", use_remove_padding=packed,
            override_config={"attn_implementation": "sdpa"}, enable_gradient_checkpointing=False,
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2", use_torch_compile=False, use_remove_padding=packed, forward_only=forward_only,
            mixed_precision={"param_dtype": "fp32"},
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=1),
        checkpoint_config=CheckpointConfig(),
    )
    engine.initialize()
    batch = tu.get_tensordict(
        {
            "input_ids": jagged(sequences),
            "position_ids": jagged([list(range(len(row))) for row in sequences]),
            "loss_mask": jagged([[1.0] * len(row) for row in sequences]),
        },
        non_tensor_dict={
            "use_remove_padding": packed, "temperature": 1.0, "use_dynamic_bsz": False,
            "micro_batch_size_per_gpu": 2, "use_fused_kernels": False,
        },
    )
    with engine.eval_mode():
        values = engine.infer_batch(batch)["model_output"]["values"]
    return [row[-1].item() for row in values.unbind()]

print(json.dumps({
    "packed": last_values(True, False),
    "padded": last_values(False, False),
    "offloaded": last_values(True, True),
    "shims": {shim.name: shim.state for shim in backend.status()},
}))
"""


@pytest.mark.slow
def test_verls_critic_engine_gives_the_reward_models_score(tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        num_labels=1,
    )
    reward_model = AutoModelForSequenceClassification.from_config(config, dtype=torch.float32).eval()
    torch.nn.init.normal_(reward_model.score.weight)
    reward_model.save_pretrained(tmp_path)
    sequences = [torch.randint(1, 64, (n_tokens,)) for n_tokens in (7, 12, 3, 9)]
    with torch.no_grad():
        scores = [reward_model(input_ids=row[None]).logits[0, 0].item() for row in sequences]

    child = subprocess.run(
        [sys.executable, "-c", ENGINE, str(tmp_path), json.dumps([row.tolist() for row in sequences])],
        env={**os.environ, **worker_env("cpu", "/tmp")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stderr[-3000:]
    found = json.loads(child.stdout.splitlines()[-1])
    for way in ("packed", "padded", "offloaded"):
        assert found[way] == pytest.approx(scores, abs=1e-5), way
    shims = found["shims"]
    assert shims.pop("weight-sync sockets in TMPDIR") == "waiting"  # no rollout in this process
    assert set(shims.values()) == {"applied"}
