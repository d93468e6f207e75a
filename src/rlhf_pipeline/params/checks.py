"""Rules between params that no single field can state: batch arithmetic and unsupported pairs.

Returns messages, never raises, so that all are reported together. Machine facts (memory, GPUs,
disk) are the preflight's job, not this file's.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import PurePosixPath

from ..data.expectation_names import DEFAULT_SEVERITY, UNCONDITIONAL
from ..data.shapes import SHAPES
from .root import Params

KINDS = ("synthetic", "auto", "mapping", *(shape.name for shape in SHAPES))

# What vLLM 0.24 takes on CPU and on GPUs alike (vllm/v1/attention/backends/cpu_attn.py).
HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)


def problems_of(params: Params) -> list[str]:
    """One message for each broken rule, naming the keys to change."""
    problems = [
        *_batches(params),
        *_ppo(params),
        *_other_ways(params),
        *_hardware(params),
        *_model(params),
        *_data(params),
    ]
    return [*problems, *problems_on_cpu(params)] if params.hardware.device == "cpu" else problems


def problems_on_cpu(params: Params) -> list[str]:
    """What cannot run without a GPU; also for whoever resolves hardware.device: auto to the CPU."""
    problems = []
    if params.ppo.rollout.engine == "sglang":
        problems.append("ppo.rollout.engine: sglang has no CPU build; use vllm, or a GPU")
    if params.hardware.strategy == "megatron":
        problems.append("hardware.strategy: megatron needs GPUs; use fsdp2 on a CPU")
    return problems


def _batches(params: Params) -> Iterator[str]:
    ppo, hardware = params.ppo, params.hardware
    world = hardware.n_gpus_per_node * hardware.nnodes
    if world % hardware.ulysses_size:
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
            yield f"ppo.dynamic_batch.{key}: {budget} tokens cannot hold a row of {longest} (prompt+response)"
    for name in ("sft", "reward_model"):
        section = getattr(params, name)
        if section.batch_size % (section.micro_batch_size_per_gpu * world):
            yield (
                f"{name}.batch_size: {section.batch_size} is not a multiple of"
                f" {name}.micro_batch_size_per_gpu ({section.micro_batch_size_per_gpu}) x {world} processes"
            )


def _ppo(params: Params) -> Iterator[str]:
    ppo = params.ppo
    teacher_alone = ppo.distillation.enabled and not ppo.distillation.task_rewards
    if ppo.adv_estimator == "grpo" and ppo.rollout.n < 2 and not teacher_alone:
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
    if ppo.validation.score == "reward" and params.rollback.enabled:
        yield (
            "ppo.validation.score: reward has no bounds and is what PPO trains on; with rollback.enabled:"
            " true use auto, gold or win_rate"
        )
    critic_only = ppo.critic.critic_only_steps if ppo.adv_estimator == "gae" else 0
    if ppo.total_steps is not None and critic_only >= ppo.total_steps:
        yield (
            f"ppo.critic.critic_only_steps: {critic_only} leaves the actor none of the"
            f" ppo.total_steps ({ppo.total_steps})"
        )
    if ppo.reward.source == "reward_model" and params.reward_model.source == "none":
        yield "reward_model.source: none leaves ppo.reward.source reward_model without one; use train or path"
    if ppo.reward.source == "rule" and ppo.reward.rule is None:
        yield "ppo.reward.rule: name a rule (synthetic, gsm8k) when ppo.reward.source is rule"
    if ppo.reward.source == "function" and not (ppo.reward.function_path and ppo.reward.function_name):
        yield "ppo.reward.function_path, ppo.reward.function_name: needed when ppo.reward.source is function"
    if ppo.rollout.multi_turn.enabled and not ppo.rollout.multi_turn.tool_config_path:
        yield "ppo.rollout.multi_turn.tool_config_path: needed when ppo.rollout.multi_turn.enabled is true"
    if ppo.reward.source == "reward_model" and ppo.rollout.multi_turn.enabled:
        yield "ppo.rollout.multi_turn.enabled: multi-turn rollouts need ppo.reward.source rule or function"
    if ppo.remove_padding is False and ppo.dynamic_batch.enabled:
        yield "ppo.dynamic_batch.enabled: token budgets need ppo.remove_padding: true"


def _other_ways(params: Params) -> Iterator[str]:
    """Distillation from a teacher and best-of-n distillation."""
    ppo, teacher = params.ppo, params.ppo.distillation
    if teacher.enabled and ppo.best_of_n.enabled:
        yield "ppo.distillation.enabled, ppo.best_of_n.enabled: only one of them can make models/policy"
    if teacher.enabled and not teacher.task_rewards and ppo.adv_estimator == "gae":
        yield (
            "ppo.adv_estimator: gae would train a critic that nothing asks, since"
            " ppo.distillation.task_rewards is false; use grpo, for which ppo.rollout.n: 1 will do"
        )
    if teacher.enabled and not teacher.task_rewards and (ppo.kl.loss.coef or ppo.kl.reward.coef):
        yield (
            "ppo.kl: its terms belong to the task's rewards, which ppo.distillation.task_rewards: false"
            " leaves out; set both coef to 0"
        )
    if ppo.best_of_n.enabled:
        world, sft = params.hardware.n_gpus_per_node * params.hardware.nnodes, ppo.best_of_n.sft
        if sft.batch_size % (sft.micro_batch_size_per_gpu * world):
            yield (
                f"ppo.best_of_n.sft.batch_size: {sft.batch_size} is not a multiple of"
                f" ppo.best_of_n.sft.micro_batch_size_per_gpu ({sft.micro_batch_size_per_gpu}) x {world}"
                " processes"
            )
        if sft.max_steps == 0:
            yield "ppo.best_of_n.sft.max_steps: 0 would publish the SFT model as the policy; use 1 or more"


def _hardware(params: Params) -> Iterator[str]:
    ppo, hardware = params.ppo, params.hardware
    if hardware.device == "cpu":
        if hardware.dtype != "float32":
            yield "hardware.dtype: use float32 with hardware.device: cpu (bfloat16 parts rollout and actor)"
        if hardware.attention != "sdpa":
            yield f"hardware.attention: {hardware.attention} needs a GPU; use sdpa with hardware.device: cpu"
    if hardware.offload_policy and hardware.strategy != "fsdp2":
        yield f"hardware.offload_policy: is FSDP2's; set it to false with strategy {hardware.strategy}"
    if hardware.ulysses_size > 1 and hardware.strategy == "megatron":
        yield "hardware.ulysses_size: is FSDP's; set it to 1 with hardware.strategy: megatron"
    if hardware.ulysses_size > 1 and not ppo.remove_padding:
        yield "hardware.ulysses_size: sequence parallelism needs ppo.remove_padding: true"
    if ppo.lora_rank and hardware.strategy == "megatron":
        yield (
            "ppo.lora_rank: is for hardware.strategy fsdp2 and fsdp; with megatron set it to 0 and"
            " actor_rollout_ref.model.lora.rank in ppo.verl_overrides"
        )


def _model(params: Params) -> Iterator[str]:
    if params.model.source == "hub" and not params.model.hub_name:
        yield "model.hub_name: needed when model.source is hub"
    if params.model.source != "tiny":
        return
    tiny = params.model.tiny
    head_size, rest = divmod(tiny.hidden_size, tiny.n_heads)
    if rest:
        yield f"model.tiny.n_heads: {tiny.n_heads} does not divide hidden_size ({tiny.hidden_size})"
    elif head_size not in HEAD_SIZES:
        yield (
            f"model.tiny.n_heads: heads of {head_size} (model.tiny.hidden_size / n_heads) cannot be served by"
            f" vLLM, which takes {', '.join(map(str, HEAD_SIZES))}"
        )
    if tiny.n_heads % tiny.n_kv_heads:
        yield f"model.tiny.n_kv_heads: {tiny.n_kv_heads} does not divide model.tiny.n_heads ({tiny.n_heads})"
    longest = params.data.max_prompt_tokens + params.data.max_response_tokens
    if tiny.max_position_embeddings < longest:
        yield (
            f"model.tiny.max_position_embeddings: {tiny.max_position_embeddings} is less than"
            f" data.max_prompt_tokens + data.max_response_tokens ({longest})"
        )


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
        if source.path is not None:
            yield from _inside_raw(f"{key}.path", source.path, data.raw)
        if source.kind == "mapping" and not source.mapping:
            yield f"{key}.mapping: needed for kind mapping"
        if source.kind not in KINDS:
            yield f"{key}.kind: {source.kind!r} is unknown; known: {', '.join(KINDS)}"
    for number, path in enumerate(data.benchmarks):
        yield from _inside_raw(f"data.benchmarks.{number}", path, data.raw)
    for name in params.validate_data.checks:
        if name not in DEFAULT_SEVERITY:
            close = get_close_matches(name, DEFAULT_SEVERITY, n=1)
            yield f"validate_data.checks.{name}: no such expectation" + (f"; {close[0]}?" if close else "")
        elif name in UNCONDITIONAL:
            yield f"validate_data.checks.{name}: cannot be relaxed, without it no other one can be evaluated"


def _inside_raw(key: str, path: str, raw: str) -> Iterator[str]:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        yield (
            f"{key}: {path} must be relative to data.raw ({raw}) and stay inside it;"
            " set data.raw to the folder that holds the file"
        )
