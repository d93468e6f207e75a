"""Rules between params that no single field can state: batch arithmetic and unsupported pairs.

Returns messages, never raises, so that all are reported together. Machine facts (memory, GPUs,
disk) are the preflight's job, not this file's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from .root import Params


def problems_of(params: Params) -> list[str]:
    """One message for each broken rule, naming the keys to change."""
    return [*_batches(params), *_pairs(params), *_data(params)]


def _batches(params: Params) -> Iterator[str]:
    ppo, hardware = params.ppo, params.hardware
    world = hardware.n_gpus_per_node * hardware.nnodes
    if world % (hardware.tensor_parallel_size * hardware.ulysses_size) and world % hardware.ulysses_size:
        yield f"hardware.ulysses_size: {hardware.ulysses_size} does not divide the {world} training processes"
    if world % hardware.tensor_parallel_size:
        yield (
            f"hardware.tensor_parallel_size: {hardware.tensor_parallel_size} does not divide the {world} GPUs"
            " (hardware.n_gpus_per_node x hardware.nnodes)"
        )
    if ppo.train_batch_size % ppo.mini_batch_size:
        yield (
            f"ppo.mini_batch_size: {ppo.mini_batch_size} does not divide ppo.train_batch_size"
            f" ({ppo.train_batch_size})"
        )
    data_parallel = max(1, world // hardware.ulysses_size)
    rows = ppo.mini_batch_size * ppo.rollout.n
    if rows % data_parallel:
        yield (
            f"ppo.mini_batch_size: {ppo.mini_batch_size} x ppo.rollout.n ({ppo.rollout.n}) = {rows} rows"
            f" cannot be shared by {data_parallel} training processes"
        )
    elif not ppo.dynamic_batch.enabled and (rows // data_parallel) % ppo.micro_batch_size_per_gpu:
        yield (
            f"ppo.micro_batch_size_per_gpu: {ppo.micro_batch_size_per_gpu} does not divide the"
            f" {rows // data_parallel} rows that one process gets of a mini-batch"
        )
    longest = params.data.max_prompt_tokens + params.data.max_response_tokens
    for key in ("actor_tokens_per_gpu", "critic_tokens_per_gpu"):
        budget = getattr(ppo.dynamic_batch, key) * hardware.ulysses_size
        if ppo.dynamic_batch.enabled and budget < longest:
            yield f"ppo.dynamic_batch.{key}: {budget} tokens cannot hold one row of {longest} (prompt + response)"
    for name in ("sft", "reward_model"):
        section = getattr(params, name)
        if section.batch_size % (section.micro_batch_size_per_gpu * world):
            yield (
                f"{name}.batch_size: {section.batch_size} is not a multiple of {name}.micro_batch_size_per_gpu"
                f" ({section.micro_batch_size_per_gpu}) x {world} processes"
            )
    tiny = params.model.tiny
    if tiny.hidden_size % tiny.n_heads:
        yield f"model.tiny.n_heads: {tiny.n_heads} does not divide model.tiny.hidden_size ({tiny.hidden_size})"
    if tiny.n_heads % tiny.n_kv_heads:
        yield f"model.tiny.n_kv_heads: {tiny.n_kv_heads} does not divide model.tiny.n_heads ({tiny.n_heads})"


def _pairs(params: Params) -> Iterator[str]:
    ppo, hardware = params.ppo, params.hardware
    if ppo.adv_estimator == "grpo" and ppo.rollout.n < 2:
        yield "ppo.rollout.n: grpo compares responses of one prompt and needs at least 2"
    if ppo.adv_estimator == "gae" and ppo.kl.reward.controller != "fixed" and ppo.kl.reward.coef == 0:
        yield (
            f"ppo.kl.reward.controller: {ppo.kl.reward.controller} multiplies ppo.kl.reward.coef, which is 0;"
            " set a coefficient above 0 or the controller to fixed"
        )
    if ppo.adv_estimator == "grpo" and ppo.kl.reward.coef > 0 and ppo.kl.loss.coef > 0:
        yield (
            "ppo.kl: grpo with both ppo.kl.reward.coef and ppo.kl.loss.coef above 0 counts the KL twice"
            " in one normalised advantage; set one of them to 0"
        )
    if ppo.reward.source == "rule" and ppo.reward.rule is None:
        yield "ppo.reward.rule: name a rule (synthetic, gsm8k) when ppo.reward.source is rule"
    if ppo.reward.source == "function" and not (ppo.reward.function_path and ppo.reward.function_name):
        yield "ppo.reward.function_path, ppo.reward.function_name: both are needed when ppo.reward.source is function"
    if ppo.rollout.multi_turn.enabled and not ppo.rollout.multi_turn.tool_config_path:
        yield "ppo.rollout.multi_turn.tool_config_path: needed when ppo.rollout.multi_turn.enabled is true"
    if ppo.reward.source == "reward_model" and ppo.rollout.multi_turn.enabled:
        yield "ppo.rollout.multi_turn.enabled: multi-turn rollouts need ppo.reward.source rule or function"
    if isinstance(ppo.validation.every, int) and ppo.validation.every < 1:
        yield f"ppo.validation.every: epoch or a number of steps of at least 1, got {ppo.validation.every}"
    if hardware.device == "cpu":
        if ppo.rollout.engine == "sglang":
            yield "ppo.rollout.engine: sglang has no CPU build here; use vllm, or hardware.device: cuda"
        if hardware.strategy == "megatron":
            yield "hardware.strategy: megatron needs GPUs; use fsdp2 with hardware.device: cpu"
        if hardware.dtype != "float32":
            yield "hardware.dtype: use float32 with hardware.device: cpu (bfloat16 parts rollout and actor)"
        if hardware.attention != "sdpa":
            yield f"hardware.attention: {hardware.attention} needs a GPU; use sdpa with hardware.device: cpu"
    if ppo.lora_rank and hardware.strategy == "megatron":
        yield "ppo.lora_rank: LoRA runs with hardware.strategy fsdp2 or fsdp"
    if ppo.remove_padding is False and ppo.dynamic_batch.enabled:
        yield "ppo.dynamic_batch.enabled: token budgets need ppo.remove_padding: true"


def _data(params: Params) -> Iterator[str]:
    data = params.data
    if data.validation_fraction <= 0 or data.test_fraction <= 0:
        yield "data.validation_fraction, data.test_fraction: both must be above 0"
    if data.validation_fraction + data.test_fraction >= 1:
        yield "data.validation_fraction + data.test_fraction: leaves nothing to train on"
    if not data.sources:
        yield "data.sources: at least one source is needed"
    names = [source.name for source in data.sources]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"data.sources: the name {name!r} is used twice"
    for number, source in enumerate(data.sources):
        key = f"data.sources.{number}"
        if source.kind != "synthetic" and source.path is None:
            yield f"{key}.path: a file inside data.raw ({data.raw}) is needed for kind {source.kind}"
        if source.path is not None and (
            PurePosixPath(source.path).is_absolute() or ".." in PurePosixPath(source.path).parts
        ):
            yield (
                f"{key}.path: {source.path} must be relative to data.raw ({data.raw}) and stay inside it;"
                " set data.raw to the folder that holds the file"
            )
        if source.kind == "mapping" and not source.mapping:
            yield f"{key}.mapping: needed for kind mapping"
    if params.model.source == "hub" and not params.model.hub_name:
        yield "model.hub_name: needed when model.source is hub"
