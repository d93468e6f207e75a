"""verl's metric names as the plain column names of curves, tracking and reports; the only such table.

`kl` is KL(policy || reference) per token in nats, by the estimator that params.yaml names: the
in-reward measurement where there is one (on the sampling policy), else the loss term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

NAMES = {
    "critic/score/mean": "reward",
    "rollout/gold/mean": "gold",
    "rollout/repetition": "repetition",
    "critic/score/max": "reward_max",
    "critic/score/min": "reward_min",
    "actor/reward_kl_penalty": "kl",
    "actor/reward_kl_penalty_coeff": "kl_coef",
    "actor/kl_loss": "kl_loss",
    "actor/distillation/abs_loss": "teacher_loss",
    "actor/entropy": "entropy",
    "actor/ppo_kl": "kl_to_old_policy",
    "actor/pg_clipfrac": "clip_fraction",
    "actor/grad_norm": "actor_grad_norm",
    "actor/lr": "actor_lr",
    "critic/grad_norm": "critic_grad_norm",
    "critic/lr": "critic_lr",
    "critic/vf_loss": "value_loss",
    "critic/vf_explained_var": "explained_variance",
    "num_turns/mean": "turns",
    "response_length/mean": "response_tokens",
    "response_length/clip_ratio": "cut_fraction",
    "training/rollout_probs_diff_mean": "rollout_probs_diff",
    "perf/throughput": "tokens_per_s_per_gpu",
    "perf/max_memory_allocated_gb": "gpu_memory_gb",
    "timing_s/step": "step_s",
    "timing_s/gen": "generation_s",
    "timing_s/reward": "reward_s",
    "timing_s/old_log_prob": "old_logprobs_s",
    "timing_s/ref": "ref_logprobs_s",
    "timing_s/values": "values_s",
    "timing_s/update_critic": "critic_update_s",
    "timing_s/update_actor": "actor_update_s",
    "timing_s/update_weights": "weight_sync_s",
    "timing_s/testing": "validation_s",
    "val/score": "validation_score",
    "val/gold": "validation_gold",
    "val/win_rate": "validation_win_rate",
    "val/reward": "validation_reward",
    "val/response_words": "validation_words",
}
COLUMNS = ("step", *NAMES.values())


def plain(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The known metrics under their plain names; `kl` falls back to the loss term's measurement."""
    found = {name: float(metrics[key]) for key, name in NAMES.items() if key in metrics}
    if "kl" not in found and "kl_loss" in found:
        found["kl"] = found["kl_loss"]
    return {name: value for name, value in found.items() if math.isfinite(value)}
