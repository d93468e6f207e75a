"""On-policy distillation: verl's keys for a teacher served by vLLM, and whether policy and teacher fit.

The teacher reads prompt and response as the policy's token ids and says how likely each was; what becomes
of that (a reward for each token, or a loss) is verl's trainer/distillation/losses.py. Torch-free.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..params import Params

MODEL = "distillation.teacher_models.teacher_model"
LOSS = "distillation.distillation_loss"


def teacher_keys(params: Params, folder: Path, device: str, dtype: str) -> dict[str, Any]:
    """verl's distillation keys for `ppo.distillation` and the teacher in `folder`."""
    teacher, data = params.ppo.distillation, params.data
    if not teacher.enabled:
        return {"distillation.enabled": False}
    keys: dict[str, Any] = {
        "distillation.enabled": True,
        "distillation.nnodes": 1,
        "distillation.n_gpus_per_node": teacher.teacher_gpus,
        f"{MODEL}.key": "teacher",
        f"{MODEL}.model_path": str(folder),
        f"{MODEL}.num_replicas": 1,
        f"{MODEL}.inference.name": "vllm",
        f"{MODEL}.inference.dtype": dtype,
        f"{MODEL}.inference.tensor_model_parallel_size": teacher.teacher_gpus,
        f"{MODEL}.inference.gpu_memory_utilization": teacher.gpu_memory_utilization,
        f"{MODEL}.inference.max_num_seqs": params.ppo.rollout.max_num_seqs,
        # It is made to sample one token after the response, which nobody looks at.
        f"{MODEL}.inference.max_model_len": data.max_prompt_tokens + data.max_response_tokens + 1,
        f"{LOSS}.loss_mode": teacher.loss,
        f"{LOSS}.topk": teacher.top_k,
        # k1's gradient does not know the teacher: it has to be a reward.
        f"{LOSS}.use_policy_gradient": teacher.loss == "k1",
        f"{LOSS}.use_task_rewards": teacher.task_rewards,
        f"{LOSS}.distillation_loss_coef": teacher.coef,
    }
    if device == "cpu":
        keys |= {f"{MODEL}.inference.enable_sleep_mode": False, f"{MODEL}.inference.free_cache_engine": False}
    return keys


def require_same_vocabulary(teacher: Path, policy: Path) -> None:
    """The teacher judges token ids, so they must mean the same to both.

    Raises:
        DataError: the teacher is no model, or has another vocabulary.
    """
    theirs, ours = vocabulary_of(teacher), vocabulary_of(policy)
    if theirs != ours:
        raise DataError(
            f"ppo.distillation.teacher_path: {teacher} has another vocabulary ({len(theirs)} entries) than"
            f" {policy} ({len(ours)}); the teacher judges the policy's token ids, so they must be the same"
        )


def vocabulary_of(model: Path) -> dict[str, int]:
    """Token -> id of a model folder's tokenizer.json, added tokens included.

    Raises:
        DataError: when the folder has none.
    """
    file = model / "tokenizer.json"
    if not file.is_file():
        raise DataError(f"{model} holds no tokenizer.json: put a Hugging Face model folder there")
    content = json.loads(file.read_text(encoding="utf-8"))
    added = {entry["content"]: entry["id"] for entry in content["added_tokens"]}
    return {**content["model"]["vocab"], **added}
