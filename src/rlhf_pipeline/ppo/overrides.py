"""The one place where params become verl's configuration: a pure function to dotted keys and values.

Keys are verl 0.9.1's (trainer/config/ppo_trainer.yaml). Composition against the installed verl,
which refuses keys it does not know, is in compose.py. `EXTRA_KEYS` are fields of verl's dataclasses
that its yaml files leave out; a test holds them against those dataclasses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..hardware import attention
from ..params import Params
from ..params.ppo import PPO, Actor, Critic
from .teacher import teacher_keys

KL_ESTIMATORS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}
AGENT_LOOP = "rlhf_single_turn"
TOOL_AGENT_LOOP = "rlhf_tool"
TRAINER_MODE = "rlhf_sync"
LOCAL_RAY = "local"

EXTRA_KEYS = frozenset(
    {
        "actor_rollout_ref.rollout.enable_sleep_mode",
        "reward.reward_model.rollout.enable_sleep_mode",
        "distillation.teacher_models.teacher_model.inference.enable_sleep_mode",
        "actor_rollout_ref.model.override_config.attn_implementation",
        "critic.model.override_config.attn_implementation",
        "critic.model.override_config.new_value_head",
        "actor_rollout_ref.actor.fsdp_config.mixed_precision",
        "actor_rollout_ref.ref.fsdp_config.mixed_precision",
        "critic.fsdp.mixed_precision",
        "ray_kwargs.ray_init.num_gpus",
        "ray_kwargs.ray_init.include_dashboard",
        "ray_kwargs.ray_init.address",
        "actor_rollout_ref.rollout.engine_kwargs.vllm.compilation_config",
        "reward.reward_model.rollout.engine_kwargs.vllm",
    }
)


PROFILED = ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic")


class RunPaths(NamedTuple):
    """Where one PPO run finds its inputs and keeps its state; all absolute."""

    train_file: Path
    validation_file: Path
    policy: Path
    reward_model: Path
    critic: Path
    checkpoints: Path
    validation_samples: Path
    agent_loops: Path
    tools: Path
    teacher: Path
    profile: Path


def verl_config(
    params: Params,
    paths: RunPaths,
    device: str,
    total_steps: int,
    validate_every_steps: int,
    reward_positions: int | None = None,
) -> dict[str, Any]:
    """Every verl key this pipeline sets, with `ppo.verl_overrides` last.

    Args:
        device: "cpu" or "cuda", resolved from hardware.device.
        total_steps: PPO steps of the whole run, from epochs and rows or ppo.total_steps.
        validate_every_steps: ppo.validation.every in steps.
        reward_positions: the reward model's max_position_embeddings, which its server may not exceed.
    """
    return {
        **_data(params, paths),
        **_model(params, paths, device),
        **_actor(params, device),
        **_rollout(params, paths, device),
        **_critic(params, paths, device),
        **_reward(params, paths, device, reward_positions),
        **teacher_keys(params, paths.teacher, device, _dtype(params, device)),
        **_algorithm(params.ppo),
        **_trainer(params, paths, device, total_steps),
        "trainer.test_freq": validate_every_steps,
        **params.ppo.verl_overrides,
    }


def uses_reward_model(params: Params) -> bool:
    """Whether rewards come from models/reward_model (and the critic starts from it)."""
    return params.ppo.reward.source == "reward_model"


def _data(params: Params, paths: RunPaths) -> dict[str, Any]:
    data, ppo = params.data, params.ppo
    return {
        "data.train_files": str(paths.train_file),
        "data.val_files": str(paths.validation_file),
        "data.val_max_samples": ppo.validation.n_prompts,
        "data.train_batch_size": ppo.train_batch_size,
        "data.max_prompt_length": data.max_prompt_tokens,
        "data.max_response_length": data.max_response_tokens,
        # The data gate has already refused over-long prompts, with their rows named.
        "data.filter_overlong_prompts": False,
        "data.truncation": "error",
        "data.dataloader_num_workers": 0,
        "data.seed": params.seed,
        "data.shuffle": True,
        "data.validation_shuffle": False,
        "data.trust_remote_code": params.model.trust_remote_code,
    }


def _model(params: Params, paths: RunPaths, device: str) -> dict[str, Any]:
    ppo = params.ppo
    return {
        "actor_rollout_ref.model.path": str(paths.policy),
        "actor_rollout_ref.model.trust_remote_code": params.model.trust_remote_code,
        "actor_rollout_ref.model.use_remove_padding": ppo.remove_padding,
        "actor_rollout_ref.model.enable_gradient_checkpointing": ppo.gradient_checkpointing,
        "actor_rollout_ref.model.lora_rank": ppo.lora_rank,
        "actor_rollout_ref.model.lora_alpha": ppo.lora_alpha,
        "actor_rollout_ref.model.override_config.attn_implementation": attention(params, device),
    }


def _dtype(params: Params, device: str) -> str:
    return params.hardware.dtype if device == "cuda" else "float32"


def _engine(prefix: str, params: Params, device: str) -> dict[str, Any]:
    """FSDP engine keys that actor, reference and critic share."""
    if params.hardware.strategy == "megatron":
        return {}
    return {
        f"{prefix}.dtype": _dtype(params, device),
        # The autocast type is this one's; without it verl computes in bfloat16 whatever dtype says.
        f"{prefix}.mixed_precision": dict.fromkeys(("param_dtype", "reduce_dtype", "buffer_dtype"), "fp32")
        if _dtype(params, device) == "float32"
        else None,
        f"{prefix}.offload_policy": params.hardware.offload_policy,
        # Compiles one small function, the entropy, for half a minute at every start.
        f"{prefix}.use_torch_compile": False,
        f"{prefix}.seed": params.seed,
        f"{prefix}.ulysses_sequence_parallel_size": params.hardware.ulysses_size,
    }


def _optimiser(prefix: str, params: Params, section: Actor | Critic) -> dict[str, Any]:
    """Optimiser and gradient keys that actor and critic share; Megatron's differ in two names."""
    keys: dict[str, Any] = {
        f"{prefix}.optim.lr": section.lr,
        f"{prefix}.optim.lr_warmup_steps": section.warmup_steps,
        f"{prefix}.optim.weight_decay": section.weight_decay,
        f"{prefix}.optim.clip_grad": section.grad_clip,
    }
    if params.hardware.strategy == "megatron":
        return keys | {f"{prefix}.optim.lr_decay_style": section.schedule}
    return keys | {
        f"{prefix}.optim.lr_scheduler_type": section.schedule,
        f"{prefix}.grad_clip": section.grad_clip,
        f"{prefix}.ulysses_sequence_parallel_size": params.hardware.ulysses_size,
    }


def _actor(params: Params, device: str) -> dict[str, Any]:
    ppo, hardware, actor = params.ppo, params.hardware, params.ppo.actor
    dynamic = ppo.dynamic_batch
    prefix = "actor_rollout_ref.actor"
    return {
        f"{prefix}.strategy": hardware.strategy,
        f"{prefix}.ppo_mini_batch_size": ppo.mini_batch_size,
        f"{prefix}.ppo_micro_batch_size_per_gpu": ppo.micro_batch_size_per_gpu,
        f"{prefix}.use_dynamic_bsz": dynamic.enabled,
        f"{prefix}.ppo_max_token_len_per_gpu": dynamic.actor_tokens_per_gpu,
        f"{prefix}.ppo_epochs": ppo.ppo_epochs,
        f"{prefix}.clip_ratio": actor.clip_ratio,
        f"{prefix}.clip_ratio_low": actor.clip_ratio,
        f"{prefix}.clip_ratio_high": actor.clip_ratio,
        f"{prefix}.entropy_coeff": actor.entropy_coeff,
        # The entropy guard needs the number even when no bonus is paid for it.
        f"{prefix}.calculate_entropy": True,
        f"{prefix}.use_kl_loss": ppo.kl.loss.coef > 0,
        f"{prefix}.kl_loss_coef": ppo.kl.loss.coef,
        f"{prefix}.kl_loss_type": KL_ESTIMATORS[ppo.kl.loss.estimator],
        f"{prefix}.use_torch_compile": False,
        f"{prefix}.data_loader_seed": params.seed,
        # hf_model makes each saved step an ordinary Hugging Face folder that can be published as it is.
        f"{prefix}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{prefix}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        **_optimiser(prefix, params, actor),
        **_engine(f"{prefix}.fsdp_config", params, device),
        **_engine("actor_rollout_ref.ref.fsdp_config", params, device),
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": ppo.micro_batch_size_per_gpu,
    }


def _rollout(params: Params, paths: RunPaths, device: str) -> dict[str, Any]:
    ppo, data, rollout = params.ppo, params.data, params.ppo.rollout
    longest = data.max_prompt_tokens + data.max_response_tokens
    prefix = "actor_rollout_ref.rollout"
    keys: dict[str, Any] = {
        f"{prefix}.name": rollout.engine,
        f"{prefix}.dtype": _dtype(params, device),
        f"{prefix}.seed": params.seed,
        f"{prefix}.n": rollout.n,
        f"{prefix}.temperature": rollout.temperature,
        f"{prefix}.top_p": rollout.top_p,
        f"{prefix}.top_k": rollout.top_k,
        f"{prefix}.tensor_model_parallel_size": params.hardware.tensor_parallel_size,
        f"{prefix}.gpu_memory_utilization": rollout.gpu_memory_utilization,
        f"{prefix}.enforce_eager": rollout.enforce_eager or device == "cpu",
        f"{prefix}.max_num_seqs": rollout.max_num_seqs,
        f"{prefix}.max_model_len": longest,
        f"{prefix}.max_num_batched_tokens": max(longest, 2048 if device == "cpu" else 8192),
        f"{prefix}.log_prob_micro_batch_size_per_gpu": ppo.micro_batch_size_per_gpu,
        # Validation samples as the policy is used, each with its own fixed seed (agent_loop.py).
        f"{prefix}.val_kwargs.temperature": rollout.temperature,
        f"{prefix}.val_kwargs.top_p": rollout.top_p,
        f"{prefix}.val_kwargs.top_k": rollout.top_k,
        f"{prefix}.val_kwargs.do_sample": True,
        f"{prefix}.agent.num_workers": 1 if device == "cpu" else 4,
        f"{prefix}.agent.default_agent_loop": TOOL_AGENT_LOOP if rollout.multi_turn.enabled else AGENT_LOOP,
        f"{prefix}.agent.agent_loop_config_path": str(paths.agent_loops),
        f"{prefix}.multi_turn.enable": rollout.multi_turn.enabled,
        f"{prefix}.multi_turn.max_assistant_turns": rollout.multi_turn.max_assistant_turns,
    }
    if rollout.multi_turn.enabled:
        kind = "function_tool_path" if paths.tools.suffix == ".py" else "tool_config_path"
        keys[f"{prefix}.multi_turn.{kind}"] = str(paths.tools)
    if device == "cpu":
        keys |= {
            # vLLM's sleep mode does not exist on CPU.
            f"{prefix}.enable_sleep_mode": False,
            f"{prefix}.free_cache_engine": False,
            f"{prefix}.checkpoint_engine.update_weights_bucket_megabytes": 64,
        }
    else:
        # Full CUDA graphs for decoding need no torch.compile, whose start-up costs minutes.
        keys[f"{prefix}.engine_kwargs.vllm.compilation_config"] = json.dumps(
            {"mode": 0, "cudagraph_mode": "FULL_DECODE_ONLY"}
        )
        keys[f"{prefix}.cudagraph_capture_sizes"] = graph_sizes(rollout.max_num_seqs)
    return keys


def graph_sizes(max_num_seqs: int) -> list[int]:
    """Batch sizes to capture: powers of two up to the largest batch, and that batch itself."""
    return [*(2**power for power in range((max_num_seqs - 1).bit_length())), max_num_seqs]


def _critic(params: Params, paths: RunPaths, device: str) -> dict[str, Any]:
    ppo, critic = params.ppo, params.ppo.critic
    if ppo.adv_estimator != "gae":
        return {"critic.enable": False}
    return {
        "critic.enable": True,
        "critic.strategy": params.hardware.strategy,
        "critic.model.path": str(paths.critic),
        "critic.model.tokenizer_path": str(paths.policy),
        "critic.model.trust_remote_code": params.model.trust_remote_code,
        "critic.model.use_remove_padding": ppo.remove_padding,
        "critic.model.enable_gradient_checkpointing": ppo.gradient_checkpointing,
        "critic.model.override_config.attn_implementation": attention(params, device),
        # Without a reward model the value head starts at zero on the policy's body.
        "critic.model.override_config.new_value_head": not uses_reward_model(params),
        "critic.ppo_micro_batch_size_per_gpu": ppo.micro_batch_size_per_gpu,
        "critic.ppo_max_token_len_per_gpu": ppo.dynamic_batch.critic_tokens_per_gpu,
        "critic.cliprange_value": critic.value_clip,
        "critic.data_loader_seed": params.seed,
        **_optimiser("critic", params, critic),
        **_engine("critic.fsdp", params, device),
    }


def _reward(params: Params, paths: RunPaths, device: str, positions: int | None) -> dict[str, Any]:
    reward = params.ppo.reward
    # Room for a response whose text becomes more tokens in the reward model's own tokenizer.
    longest = 2 * (params.data.max_prompt_tokens + params.data.max_response_tokens)
    keys: dict[str, Any] = {
        "reward.num_workers": 1 if device == "cpu" else 4,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "RewardManager",
        "reward.reward_manager.module.path": "pkg://rlhf_pipeline.ppo.reward_manager",
        # verl asks our manager only when a custom function is named; the manager does the scoring.
        "reward.custom_reward_function.path": "pkg://rlhf_pipeline.ppo.reward_manager",
        "reward.custom_reward_function.name": "not_called",
    }
    if reward.source == "reward_model" and reward.serving == "vllm":
        prefix = "reward.reward_model"
        keys |= {
            f"{prefix}.enable": True,
            f"{prefix}.model_path": str(paths.reward_model),
            f"{prefix}.rollout.name": "vllm",
            f"{prefix}.rollout.dtype": _dtype(params, device),
            f"{prefix}.rollout.tensor_model_parallel_size": params.hardware.tensor_parallel_size,
            f"{prefix}.rollout.gpu_memory_utilization": reward.gpu_memory_utilization,
            f"{prefix}.rollout.max_num_seqs": params.ppo.rollout.max_num_seqs,
            f"{prefix}.rollout.max_model_len": longest if positions is None else min(longest, positions),
            f"{prefix}.rollout.enforce_eager": True,
            # Without this vLLM inspects transformers' fallback classes at every start: 14 to 26 s.
            f"{prefix}.rollout.engine_kwargs.vllm": {"model_impl": "vllm"},
        }
        if device == "cpu":
            keys |= {
                f"{prefix}.rollout.enable_sleep_mode": False,
                f"{prefix}.rollout.free_cache_engine": False,
            }
    else:
        keys["reward.reward_model.enable"] = False
    return keys


def _algorithm(ppo: PPO) -> dict[str, Any]:
    kl = ppo.kl.reward
    return {
        "algorithm.adv_estimator": ppo.adv_estimator,
        "algorithm.gamma": ppo.gamma,
        "algorithm.lam": ppo.lam,
        "algorithm.use_kl_in_reward": kl.coef > 0,
        "algorithm.kl_penalty": KL_ESTIMATORS[kl.estimator],
        # The coefficient is driven by our controllers (kl_controllers.py); verl only starts with it.
        "algorithm.kl_ctrl.type": "fixed",
        "algorithm.kl_ctrl.kl_coef": kl.coef,
        "algorithm.kl_ctrl.horizon": kl.horizon,
        "algorithm.kl_ctrl.target_kl": kl.target,
    }


def _trainer(params: Params, paths: RunPaths, device: str, total_steps: int) -> dict[str, Any]:
    ppo, hardware = params.ppo, params.hardware
    keys: dict[str, Any] = {
        "trainer.device": device,
        "trainer.n_gpus_per_node": hardware.n_gpus_per_node,
        "trainer.nnodes": hardware.nnodes,
        "trainer.total_epochs": max(ppo.total_epochs, total_steps),
        "trainer.total_training_steps": total_steps,
        "trainer.val_before_train": ppo.validation.before_train,
        "trainer.critic_warmup": ppo.critic.critic_only_steps,
        "trainer.logger": ["file"],
        "trainer.project_name": params.tracking.project,
        "trainer.experiment_name": "ppo",
        "trainer.default_local_dir": str(paths.checkpoints),
        "trainer.validation_data_dir": str(paths.validation_samples),
        # Our trainer saves after it has validated, into the ledger; verl's own schedule is off.
        "trainer.save_freq": -1,
        "trainer.resume_mode": "disable",
        "trainer.v1.trainer_mode": TRAINER_MODE,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1 if device == "cpu" else 4,
        "ray_kwargs.ray_init.include_dashboard": False,
    }
    # "local" starts a Ray of the run's own, also where RAY_ADDRESS or another run names one.
    keys["ray_kwargs.ray_init.address"] = hardware.ray_address or LOCAL_RAY
    if not hardware.ray_address:
        # Logical slots: with few of them Ray waits for ever for TransferQueue's actors.
        keys["ray_kwargs.ray_init.num_cpus"] = 32 if device == "cpu" else 32 + 16 * hardware.n_gpus_per_node
        if device == "cpu":
            teachers = ppo.distillation.teacher_gpus if ppo.distillation.enabled else 0
            keys["ray_kwargs.ray_init.num_gpus"] = hardware.n_gpus_per_node * hardware.nnodes + teachers
    if ppo.profile_steps:
        keys |= {
            "global_profiler.tool": "torch",
            "global_profiler.steps": list(ppo.profile_steps),
            "global_profiler.save_path": str(paths.profile),
            # The steps alone trace nothing: each role has a switch of its own.
            **dict.fromkeys(
                (
                    f"{role}.profiler.enable"
                    for role in PROFILED
                    if ppo.adv_estimator == "gae" or role != "critic"
                ),
                True,
            ),
        }
    return keys
