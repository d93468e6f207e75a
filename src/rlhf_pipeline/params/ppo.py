"""The ppo section: KL-regularised PPO or GRPO, its rollouts, reward, KL terms and validation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Count, CountOrZero, Fraction, LearningRate, NonNegative, Positive, Section


class KLReward(Section):
    coef: NonNegative
    """Weight of the per-token KL taken off the reward; 0 turns it off. verl: algorithm.kl_ctrl.kl_coef."""
    controller: Literal["fixed", "adaptive", "moving_average"]
    """How coef follows the measured KL (docs/reliability.md gives the formulas)."""
    target: Positive
    """KL(policy || reference) per token in nats that the controller steers to."""
    horizon: Count
    """Samples over which the controller corrects. verl: algorithm.kl_ctrl.horizon."""
    ema_decay: Annotated[float, Field(ge=0.0, lt=1.0)]
    """moving_average only: weight of the past in the average of the measured KL."""
    gain: Annotated[float, Field(ge=0.0, le=4.0)]
    """moving_average only: above the target, coef is raised by (average / target)^gain."""
    estimator: Literal["k1", "k2", "k3"]
    """k1 = -log r, k2 = (log r)^2 / 2, k3 = r - 1 - log r with r = p_ref / p_policy (Schulman 2020)."""


class KLLoss(Section):
    coef: NonNegative
    """Weight of the KL term in the actor loss; 0 turns it off. verl: actor.kl_loss_coef."""
    estimator: Literal["k1", "k2", "k3"]
    """k3 is verl's low_var_kl. verl: actor.kl_loss_type."""


class KL(Section):
    reward: KLReward
    loss: KLLoss


class Actor(Section):
    lr: LearningRate
    warmup_steps: CountOrZero
    schedule: Literal["constant", "cosine"]
    weight_decay: NonNegative
    grad_clip: Positive
    clip_ratio: Positive
    entropy_coeff: NonNegative


class Critic(Section):
    lr: LearningRate
    warmup_steps: CountOrZero
    """Learning-rate warm-up."""
    critic_only_steps: CountOrZero
    """Steps in which only the critic learns. verl: trainer.critic_warmup."""
    schedule: Literal["constant", "cosine"]
    weight_decay: NonNegative
    grad_clip: Positive
    value_clip: Positive
    """verl: critic.cliprange_value."""


class DynamicBatch(Section):
    enabled: bool
    """Packs micro-batches by tokens instead of by rows. verl: use_dynamic_bsz."""
    actor_tokens_per_gpu: Count
    critic_tokens_per_gpu: Count


class MultiTurn(Section):
    enabled: bool
    tool_config_path: str | None
    """verl tool config file. verl: rollout.multi_turn.tool_config_path."""
    max_assistant_turns: Count


class Rollout(Section):
    engine: Literal["vllm", "sglang"]
    n: Count
    """Responses sampled per prompt; above 1 for grpo. verl: rollout.n."""
    temperature: Positive
    top_p: Fraction
    top_k: int = Field(ge=-1)
    """-1 keeps every token."""
    gpu_memory_utilization: Fraction
    """Share of the GPU that vLLM may take; ignored on CPU."""
    enforce_eager: bool
    """No CUDA graphs; always on for CPU."""
    max_num_seqs: Count
    kv_cache_gib: Count
    """KV cache of one vLLM process on CPU."""
    multi_turn: MultiTurn


class Reward(Section):
    source: Literal["reward_model", "rule", "function"]
    """reward_model scores with models/reward_model, rule with the named rule, function with your Python."""
    serving: Literal["vllm", "in_process"]
    """Where the reward model runs."""
    rule: Literal["synthetic", "gsm8k"] | None
    function_path: str | None
    """Python file with `compute_score(data_source, solution_str, ground_truth, extra_info)`."""
    function_name: str | None
    gpu_memory_utilization: Fraction


class Validation(Section):
    every: Literal["epoch"] | Count
    """epoch, or a number of steps; every validated step is saved."""
    before_train: bool
    n_prompts: Count
    score: Literal["auto", "gold", "win_rate", "reward"]
    """What rollback watches: the gold rule, or the win rate over SFT; auto takes gold where it exists."""


class Checkpoints(Section):
    keep_newest: Count
    """Besides the best and the last good step."""
    min_free_gib: NonNegative
    """A run refuses to start, or a save to begin, with less disk than this left afterwards."""


class PPO(Section):
    adv_estimator: Literal["gae", "grpo"]
    gamma: Fraction
    lam: Fraction
    total_epochs: Count
    total_steps: Count | None
    """Stops earlier than the epochs."""
    train_batch_size: Count
    """Prompts per step. verl: data.train_batch_size."""
    mini_batch_size: Count
    """Prompts per optimiser step. verl: actor.ppo_mini_batch_size."""
    micro_batch_size_per_gpu: Count
    """Sequences per forward and backward pass."""
    ppo_epochs: Count
    dynamic_batch: DynamicBatch
    remove_padding: bool
    gradient_checkpointing: bool
    lora_rank: CountOrZero
    """0 trains every weight."""
    lora_alpha: Count
    kl: KL
    actor: Actor
    critic: Critic
    rollout: Rollout
    reward: Reward
    validation: Validation
    checkpoints: Checkpoints
    profile_steps: list[Count]
    """Steps traced with the torch profiler."""
    verl_overrides: dict[str, Any]
    """Any other verl key by its dotted path; checked against the installed verl, unknown ones refused."""
