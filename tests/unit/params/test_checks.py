"""Every rule between params: the change that breaks it gives exactly its message, the lawful twin none."""

from __future__ import annotations

from typing import Any

import pytest

from rlhf_pipeline.params import parse
from rlhf_pipeline.params.checks import problems_on_cpu

from .conftest import Problems

GRPO = {"ppo.adv_estimator": "grpo", "ppo.rollout.n": 4}
SOURCE = {
    "kind": "auto",
    "path": "a.jsonl",
    "name": "a",
    "weight": 1.0,
    "limit": None,
    "mapping": None,
    "options": None,
}
GPU = {"hardware.device": "cuda", "hardware.dtype": "bfloat16"}
BATCHES = {
    "ppo.train_batch_size": 64,
    "ppo.mini_batch_size": 32,
    "ppo.micro_batch_size_per_gpu": 16,
    "sft.batch_size": 64,
    "sft.micro_batch_size_per_gpu": 16,
    "ppo.best_of_n.sft.batch_size": 64,
    "ppo.best_of_n.sft.micro_batch_size_per_gpu": 16,
    "reward_model.batch_size": 64,
    "reward_model.micro_batch_size_per_gpu": 16,
    "data.max_prompt_tokens": 64,
    "data.max_response_tokens": 48,
}

TEACHER = {
    **GRPO,
    "ppo.distillation.enabled": True,
    "ppo.kl.reward.coef": 0.0,
    "ppo.kl.loss.coef": 0.0,
    "ppo.rollout.n": 1,
}

BROKEN: list[tuple[dict[str, Any], str]] = [
    (
        {"ppo.validation.score": "reward"},
        "ppo.validation.score: reward has no bounds and is what PPO trains on; with rollback.enabled: true"
        " use auto, gold or win_rate",
    ),
    (
        {**TEACHER, "ppo.best_of_n.enabled": True},
        "ppo.distillation.enabled, ppo.best_of_n.enabled: only one of them can make models/policy",
    ),
    (
        {**TEACHER, "ppo.adv_estimator": "gae", "ppo.kl.reward.controller": "fixed"},
        "ppo.adv_estimator: gae would train a critic that nothing asks, since"
        " ppo.distillation.task_rewards is false; use grpo, for which ppo.rollout.n: 1 will do",
    ),
    (
        {**TEACHER, "ppo.kl.loss.coef": 0.1},
        "ppo.kl: its terms belong to the task's rewards, which ppo.distillation.task_rewards: false"
        " leaves out; set both coef to 0",
    ),
    (
        {**TEACHER, "ppo.distillation.task_rewards": True},
        "ppo.rollout.n: grpo compares responses of one prompt and needs at least 2",
    ),
    (
        {"ppo.best_of_n.enabled": True, "ppo.best_of_n.sft.batch_size": 40},
        "ppo.best_of_n.sft.batch_size: 40 is not a multiple of"
        " ppo.best_of_n.sft.micro_batch_size_per_gpu (16) x 1 processes",
    ),
    (
        {"ppo.best_of_n.enabled": True, "ppo.best_of_n.sft.max_steps": 0},
        "ppo.best_of_n.sft.max_steps: 0 would publish the SFT model as the policy; use 1 or more",
    ),
    (
        {"hardware.n_gpus_per_node": 4, "hardware.ulysses_size": 3},
        "hardware.ulysses_size: 3 does not divide the 4 training processes",
    ),
    (
        {
            "hardware.n_gpus_per_node": 2,
            "hardware.nnodes": 2,
            "hardware.tensor_parallel_size": 3,
            "ppo.micro_batch_size_per_gpu": 8,
        },
        "hardware.tensor_parallel_size: 3 does not divide the 4 GPUs"
        " (hardware.n_gpus_per_node x hardware.nnodes)",
    ),
    (
        {"ppo.train_batch_size": 72},
        "ppo.mini_batch_size: 32 does not divide ppo.train_batch_size (72)",
    ),
    (
        {
            "ppo.train_batch_size": 3,
            "ppo.mini_batch_size": 3,
            "ppo.rollout.n": 3,
            "ppo.micro_batch_size_per_gpu": 1,
            "hardware.n_gpus_per_node": 2,
        },
        "ppo.mini_batch_size: 3 x ppo.rollout.n (3) = 9 rows cannot be shared by 2 training processes",
    ),
    (
        {"ppo.micro_batch_size_per_gpu": 12},
        "ppo.micro_batch_size_per_gpu: 12 does not divide the 32 rows that one process gets of a mini-batch",
    ),
    (
        {"ppo.dynamic_batch.enabled": True, "ppo.dynamic_batch.actor_tokens_per_gpu": 111},
        "ppo.dynamic_batch.actor_tokens_per_gpu: 111 tokens cannot hold a row of 112 (prompt+response)",
    ),
    (
        {"ppo.dynamic_batch.enabled": True, "ppo.dynamic_batch.critic_tokens_per_gpu": 111},
        "ppo.dynamic_batch.critic_tokens_per_gpu: 111 tokens cannot hold a row of 112 (prompt+response)",
    ),
    (
        {"sft.batch_size": 40},
        "sft.batch_size: 40 is not a multiple of sft.micro_batch_size_per_gpu (16) x 1 processes",
    ),
    (
        {"reward_model.batch_size": 40},
        "reward_model.batch_size: 40 is not a multiple of reward_model.micro_batch_size_per_gpu (16)"
        " x 1 processes",
    ),
    (
        {**GRPO, "ppo.rollout.n": 1, "ppo.kl.loss.coef": 0.0},
        "ppo.rollout.n: grpo compares responses of one prompt and needs at least 2",
    ),
    (
        {"ppo.kl.reward.coef": 0.0, "ppo.kl.reward.controller": "adaptive"},
        "ppo.kl.reward.controller: adaptive multiplies ppo.kl.reward.coef, which is 0;"
        " set a coefficient above 0 or the controller to fixed",
    ),
    (
        {**GRPO, "ppo.kl.reward.coef": 0.1, "ppo.kl.loss.coef": 0.1},
        "ppo.kl: grpo with both ppo.kl.reward.coef and ppo.kl.loss.coef above 0 counts the KL twice"
        " in one normalised advantage; set one of them to 0",
    ),
    (
        {"ppo.critic.critic_only_steps": 24, "ppo.total_steps": 24},
        "ppo.critic.critic_only_steps: 24 leaves the actor none of the ppo.total_steps (24)",
    ),
    (
        {"reward_model.source": "none"},
        "reward_model.source: none leaves ppo.reward.source reward_model without one; use train or path",
    ),
    (
        {"ppo.reward.source": "rule", "ppo.reward.rule": None},
        "ppo.reward.rule: name a rule (synthetic, gsm8k) when ppo.reward.source is rule",
    ),
    (
        {"ppo.reward.source": "function", "ppo.reward.function_path": "mine.py"},
        "ppo.reward.function_path, ppo.reward.function_name: needed when ppo.reward.source is function",
    ),
    (
        {
            "ppo.rollout.multi_turn.enabled": True,
            "ppo.reward.source": "rule",
            "ppo.reward.rule": "synthetic",
        },
        "ppo.rollout.multi_turn.tool_config_path: needed when ppo.rollout.multi_turn.enabled is true",
    ),
    (
        {"ppo.rollout.multi_turn.enabled": True, "ppo.rollout.multi_turn.tool_config_path": "tools.yaml"},
        "ppo.rollout.multi_turn.enabled: multi-turn rollouts need ppo.reward.source rule or function",
    ),
    (
        {"ppo.dynamic_batch.enabled": True, "ppo.remove_padding": False},
        "ppo.dynamic_batch.enabled: token budgets need ppo.remove_padding: true",
    ),
    (
        {"hardware.device": "cpu", "hardware.dtype": "bfloat16"},
        "hardware.dtype: use float32 with hardware.device: cpu (bfloat16 parts rollout and actor)",
    ),
    (
        {"hardware.device": "cpu", "hardware.attention": "torch_varlen"},
        "hardware.attention: torch_varlen needs a GPU; use sdpa with hardware.device: cpu",
    ),
    (
        {"hardware.device": "cpu", "ppo.rollout.engine": "sglang"},
        "ppo.rollout.engine: sglang has no CPU build; use vllm, or a GPU",
    ),
    (
        {"hardware.device": "cpu", "hardware.strategy": "megatron"},
        "hardware.strategy: megatron needs GPUs; use fsdp2 on a CPU",
    ),
    (
        {**GPU, "hardware.offload_policy": True, "hardware.strategy": "fsdp"},
        "hardware.offload_policy: is FSDP2's; set it to false with strategy fsdp",
    ),
    (
        {**GPU, "hardware.n_gpus_per_node": 2, "hardware.ulysses_size": 2, "hardware.strategy": "megatron"},
        "hardware.ulysses_size: is FSDP's; set it to 1 with hardware.strategy: megatron",
    ),
    (
        {
            **GPU,
            "hardware.n_gpus_per_node": 2,
            "hardware.ulysses_size": 2,
            "ppo.remove_padding": False,
            "ppo.dynamic_batch.enabled": False,
        },
        "hardware.ulysses_size: sequence parallelism needs ppo.remove_padding: true",
    ),
    (
        {**GPU, "hardware.strategy": "megatron", "ppo.lora_rank": 8},
        "ppo.lora_rank: is for hardware.strategy fsdp2 and fsdp; with megatron set it to 0 and"
        " actor_rollout_ref.model.lora.rank in ppo.verl_overrides",
    ),
    ({"model.source": "hub"}, "model.hub_name: needed when model.source is hub"),
    (
        {"model.tiny.hidden_size": 130, "model.tiny.n_heads": 4},
        "model.tiny.n_heads: 4 does not divide hidden_size (130)",
    ),
    (
        {"model.tiny.hidden_size": 64, "model.tiny.n_heads": 4},
        "model.tiny.n_heads: heads of 16 (model.tiny.hidden_size / n_heads) cannot be served by vLLM,"
        " which takes 32, 64, 80, 96, 112, 128, 160, 192, 224, 256",
    ),
    (
        {"model.tiny.hidden_size": 128, "model.tiny.n_heads": 4, "model.tiny.n_kv_heads": 3},
        "model.tiny.n_kv_heads: 3 does not divide model.tiny.n_heads (4)",
    ),
    (
        {"model.tiny.max_position_embeddings": 111},
        "model.tiny.max_position_embeddings: 111 is less than"
        " data.max_prompt_tokens + data.max_response_tokens (112)",
    ),
    (
        {"data.validation_fraction": 0.0, "data.test_fraction": 0.2},
        "data.validation_fraction, data.test_fraction: both must be above 0",
    ),
    (
        {"data.validation_fraction": 0.5, "data.test_fraction": 0.5},
        "data.validation_fraction + data.test_fraction: leaves nothing to train on",
    ),
    ({"data.sources": []}, "data.sources: at least one source is needed"),
    (
        {"data.sources": [SOURCE, {**SOURCE, "path": "b.jsonl"}]},
        "data.sources: the name 'a' is used twice",
    ),
    (
        {"data.raw": "data/raw", "data.sources": [{**SOURCE, "path": None}]},
        "data.sources.0.path: a file inside data.raw (data/raw) is needed for kind auto",
    ),
    (
        {"data.raw": "data/raw", "data.sources": [{**SOURCE, "path": "../b.jsonl"}]},
        "data.sources.0.path: ../b.jsonl must be relative to data.raw (data/raw) and stay inside it;"
        " set data.raw to the folder that holds the file",
    ),
    (
        {"data.raw": "data/raw", "data.sources": [{**SOURCE, "path": "/home/b.jsonl"}]},
        "data.sources.0.path: /home/b.jsonl must be relative to data.raw (data/raw) and stay inside it;"
        " set data.raw to the folder that holds the file",
    ),
    (
        {"data.sources": [{**SOURCE, "kind": "mapping"}]},
        "data.sources.0.mapping: needed for kind mapping",
    ),
]

LAWFUL: list[dict[str, Any]] = [
    TEACHER,
    {"ppo.best_of_n.enabled": True},
    {},
    {"hardware.n_gpus_per_node": 2, "hardware.tensor_parallel_size": 2},
    {"hardware.n_gpus_per_node": 4, "hardware.ulysses_size": 2},
    {"ppo.train_batch_size": 96},
    {"ppo.micro_batch_size_per_gpu": 12, "ppo.dynamic_batch.enabled": True},
    {"ppo.dynamic_batch.enabled": True, "ppo.dynamic_batch.actor_tokens_per_gpu": 112},
    {"ppo.dynamic_batch.enabled": False, "ppo.dynamic_batch.actor_tokens_per_gpu": 1},
    {**GRPO, "ppo.kl.reward.coef": 0.0},
    {**GRPO, "ppo.kl.loss.coef": 0.0},
    {"ppo.kl.reward.coef": 0.0, "ppo.kl.reward.controller": "fixed"},
    {"ppo.critic.critic_only_steps": 23, "ppo.total_steps": 24},
    {"ppo.critic.critic_only_steps": 24, "ppo.total_steps": None},
    {"ppo.reward.source": "rule", "ppo.reward.rule": "gsm8k", "reward_model.source": "none"},
    {"ppo.reward.source": "function", "ppo.reward.function_path": "m.py", "ppo.reward.function_name": "f"},
    {"hardware.device": "cpu"},
    {**GPU, "hardware.attention": "torch_varlen", "hardware.offload_policy": True, "ppo.lora_rank": 8},
    {**GPU, "hardware.strategy": "megatron", "ppo.rollout.engine": "sglang"},
    {"model.source": "path", "model.tiny.hidden_size": 7},
    {"model.source": "hub", "model.hub_name": "someone/model"},
    {"model.tiny.max_position_embeddings": 112},
    {"data.sources": [SOURCE, {**SOURCE, "name": "b", "path": "folder/*.parquet"}]},
    {"data.sources": [{**SOURCE, "kind": "mapping", "mapping": {"prompt": "q"}}]},
]


@pytest.mark.parametrize(("overrides", "message"), BROKEN, ids=[message[:50] for _, message in BROKEN])
def test_a_broken_rule_gives_its_message_and_no_other(
    problems: Problems, overrides: dict[str, Any], message: str
) -> None:
    assert problems({**BATCHES, **overrides}) == [message]


@pytest.mark.parametrize("overrides", LAWFUL, ids=str)
def test_the_lawful_twin_passes(problems: Problems, overrides: dict[str, Any]) -> None:
    assert problems({**BATCHES, **overrides}) == []


def test_all_broken_rules_are_reported_together(problems: Problems) -> None:
    every = {**BATCHES, "ppo.mini_batch_size": 48, "data.sources": [], "model.source": "hub"}
    assert [line.split(":")[0] for line in problems(every)] == [
        "ppo.mini_batch_size",
        "model.hub_name",
        "data.sources",
    ]


def test_ulysses_widens_the_token_budget_and_narrows_the_data_parallel_group(problems: Problems) -> None:
    # 4 processes in groups of 2: 2 x 56 tokens hold a row of 112, and 32 rows are shared by 2, 16 each.
    overrides = {
        **BATCHES,
        "hardware.n_gpus_per_node": 4,
        "hardware.ulysses_size": 2,
        "ppo.dynamic_batch.enabled": True,
        "ppo.dynamic_batch.actor_tokens_per_gpu": 56,
        "ppo.dynamic_batch.critic_tokens_per_gpu": 56,
    }
    assert problems(overrides) == []
    assert problems({**overrides, "ppo.dynamic_batch.enabled": False}) == []
    assert problems({**overrides, "hardware.ulysses_size": 1}) != []


def test_what_a_cpu_cannot_run_is_known_before_auto_is_resolved(values: dict[str, Any]) -> None:
    params = parse(values, {**BATCHES, "hardware.device": "auto", "hardware.strategy": "megatron"})
    assert problems_on_cpu(params) == ["hardware.strategy: megatron needs GPUs; use fsdp2 on a CPU"]
    assert problems_on_cpu(parse(values, BATCHES)) == []
