"""The ppo section: PPO or GRPO, distillation, rollouts, reward, KL terms and validation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Count, CountOrZero, Fraction, LearningRate, NonNegative, Positive, Section
from .training import SFT


class KLReward(Section):
    """KL taken off the reward, token by token, before the advantages."""

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
    """KL added to the loss of the actor."""

    coef: NonNegative
    """Weight of the KL term in the actor loss; 0 turns it off. verl: actor.kl_loss_coef."""
    estimator: Literal["k1", "k2", "k3"]
    """k3 is verl's low_var_kl. verl: actor.kl_loss_type."""


class KL(Section):
    """The two places where divergence from the SFT policy costs; either, both or none."""

    reward: KLReward
    loss: KLLoss


class Actor(Section):
    """The policy in training."""

    lr: LearningRate
    """Highest learning rate. verl: actor.optim.lr."""
    warmup_steps: CountOrZero
    """Steps over which the learning rate rises from zero. verl: actor.optim.lr_warmup_steps."""
    schedule: Literal["constant", "cosine"]
    """Course of the learning rate after the warm-up. verl: actor.optim.lr_scheduler_type."""
    weight_decay: NonNegative
    """Decoupled weight decay. verl: actor.optim.weight_decay."""
    grad_clip: Positive
    """Largest gradient norm. verl: actor.grad_clip."""
    clip_ratio: Positive
    """The probability ratio counts within 1 - clip_ratio and 1 + clip_ratio. verl: actor.clip_ratio."""
    entropy_coeff: NonNegative
    """Bonus for entropy in the loss; 0.001 to 0.01 against early certainty. verl: actor.entropy_coeff."""


class Critic(Section):
    """The value model of gae, started from the reward model; grpo has none."""

    lr: LearningRate
    """Highest learning rate, commonly 3 to 10 times the actor's. verl: critic.optim.lr."""
    warmup_steps: CountOrZero
    """Learning-rate warm-up."""
    critic_only_steps: CountOrZero
    """Steps in which only the critic learns. verl: trainer.critic_warmup."""
    schedule: Literal["constant", "cosine"]
    """Course of the learning rate after the warm-up. verl: critic.optim.lr_scheduler_type."""
    weight_decay: NonNegative
    """Decoupled weight decay. verl: critic.optim.weight_decay."""
    grad_clip: Positive
    """Largest gradient norm. verl: critic.grad_clip."""
    value_clip: Positive
    """verl: critic.cliprange_value."""


class DynamicBatch(Section):
    """Micro-batches of equal tokens instead of equal rows; needs remove_padding."""

    enabled: bool
    """Packs micro-batches by tokens instead of by rows. verl: use_dynamic_bsz."""
    actor_tokens_per_gpu: Count
    """About 3 x (prompt + response) where memory allows. verl: actor.ppo_max_token_len_per_gpu."""
    critic_tokens_per_gpu: Count
    """About 2 x (prompt + response) where memory allows. verl: critic.ppo_max_token_len_per_gpu."""


class MultiTurn(Section):
    """Rollouts in which the policy calls tools."""

    enabled: bool
    """Needs a tool file and reward.source rule or function. verl: rollout.multi_turn.enable."""
    tool_config_path: str | None
    """Python file with verl's @function_tool functions, or verl's tool YAML."""
    max_assistant_turns: Count
    """Turns of the policy in one conversation. verl: rollout.multi_turn.max_assistant_turns."""


class Rollout(Section):
    """How responses are sampled in training and validation."""

    engine: Literal["vllm", "sglang"]
    """sglang needs GPUs and an installed sglang. verl: rollout.name."""
    n: Count
    """Responses sampled per prompt; above 1 for grpo. verl: rollout.n."""
    temperature: Positive
    """Sampling temperature. verl: rollout.temperature."""
    top_p: Fraction
    """Share of the probability mass that is sampled from; 1.0 keeps all. verl: rollout.top_p."""
    top_k: int = Field(ge=-1)
    """-1 keeps every token."""
    gpu_memory_utilization: Fraction
    """Share of the GPU that vLLM may take; ignored on CPU."""
    enforce_eager: bool
    """No CUDA graphs; always on for CPU."""
    max_num_seqs: Count
    """Sequences one vLLM replica works on at a time. verl: rollout.max_num_seqs."""
    kv_cache_gib: Count
    """KV cache of one vLLM process on CPU."""
    multi_turn: MultiTurn


class Reward(Section):
    """What a response is worth."""

    source: Literal["reward_model", "rule", "function"]
    """reward_model scores with models/reward_model, rule with the named rule, function with your Python."""
    serving: Literal["vllm", "in_process"]
    """Where the reward model runs."""
    rule: Literal["synthetic", "gsm8k"] | None
    """For source: rule; needs a ground truth in the data (gsm8k) or the synthetic task."""
    function_path: str | None
    """Python file with `compute_score(data_source, solution_str, ground_truth, extra_info)`."""
    function_name: str | None
    """Name of that function in the file."""
    gpu_memory_utilization: Fraction
    """Share of the GPU that the served reward model may take; ignored on CPU."""


class Validation(Section):
    """Sampling on held-out prompts during PPO; its score decides rollback and the published step."""

    every: Literal["epoch"] | Count
    """epoch, or a number of steps; every validated step is saved."""
    before_train: bool
    """Also validates the SFT policy, as the mark to compare with."""
    n_prompts: Count
    """Held-out prompts, at most."""
    score: Literal["auto", "gold", "win_rate", "reward"]
    """What rollback watches: the gold rule, or the win rate over SFT by the judge; auto takes gold if it can.

    evaluate.judge judges the win rate (or a reward that is no model); reward: not for rollback."""


class Checkpoints(Section):
    """How many PPO steps are kept on disk."""

    keep_newest: Count
    """Besides the best and the last good step."""
    min_free_gib: NonNegative
    """A run refuses to start, or a save to begin, with less disk than this left afterwards."""


class Distillation(Section):
    """On-policy distillation: a teacher served by vLLM judges every token that the policy samples."""

    enabled: bool
    """verl: distillation.enabled."""
    teacher_path: str
    """Hugging Face folder with the policy's vocabulary (a DVC dependency, so it must exist)."""
    teacher_gpus: Count
    """GPUs that serve the teacher, besides those of hardware. verl: distillation.n_gpus_per_node."""
    gpu_memory_utilization: Fraction
    """Share of the teacher's GPUs that vLLM may take; ignored on CPU."""
    loss: Literal["k1", "k3", "forward_kl_topk"]
    """k1 pays each token a reward; k3, and forward KL over the top_k tokens, are losses of their own."""
    top_k: Count
    """forward_kl_topk only: so many of the teacher's likeliest tokens count."""
    task_rewards: bool
    """Also pays ppo.reward; else the teacher is all that teaches."""
    coef: Positive
    """Weight of the teacher beside the task's rewards."""


class BestOfN(Section):
    """Best-of-n distillation: SFT on the best of several responses to each prompt, in place of PPO."""

    enabled: bool
    """Makes models/policy this way; of the rest of ppo only reward and validation.n_prompts then count."""
    candidates: Literal["sampled", "logged"]
    """sampled asks the SFT model; logged takes the responses of the preferences table, samples nothing."""
    n: Annotated[int, Field(ge=2)]
    """Responses sampled per prompt."""
    n_prompts: Count | None
    """Training prompts used, at most; null takes all."""
    temperature: Positive
    """Sampling temperature."""
    engine: Literal["auto", "torch", "vllm"]
    """What samples; auto takes vllm on CUDA and torch on CPU, where vLLM starts slowly."""
    sft: SFT


class PPO(Section):
    """KL-regularised policy optimisation with verl, or one of the ways in its place."""

    adv_estimator: Literal["gae", "grpo"]
    """gae learns a critic (PPO); grpo compares responses of one prompt. verl: algorithm.adv_estimator."""
    gamma: Fraction
    """Discount per token. verl: algorithm.gamma."""
    lam: Fraction
    """GAE trade-off between bias (0) and variance (1). verl: algorithm.lam."""
    total_epochs: Count
    """Passes over the training prompts. verl: trainer.total_epochs."""
    total_steps: Count | None
    """Stops earlier than the epochs."""
    train_batch_size: Count
    """Prompts per step. verl: data.train_batch_size."""
    mini_batch_size: Count
    """Prompts per optimiser step. verl: actor.ppo_mini_batch_size."""
    micro_batch_size_per_gpu: Count
    """Sequences per forward and backward pass."""
    ppo_epochs: Count
    """Passes over each step's responses. verl: actor.ppo_epochs."""
    dynamic_batch: DynamicBatch
    remove_padding: bool
    """Packs rows of different length without padding. verl: model.use_remove_padding."""
    gradient_checkpointing: bool
    """Recomputes activations: less memory, more time. verl: model.enable_gradient_checkpointing."""
    lora_rank: CountOrZero
    """0 trains every weight."""
    lora_alpha: Count
    """Scale of the LoRA update, together with lora_rank. verl: model.lora_alpha."""
    kl: KL
    actor: Actor
    critic: Critic
    rollout: Rollout
    reward: Reward
    distillation: Distillation
    best_of_n: BestOfN
    validation: Validation
    checkpoints: Checkpoints
    profile_steps: list[Count]
    """Steps traced with torch's profiler, into logs/profile (Chrome traces, for ui.perfetto.dev)."""
    verl_overrides: dict[str, Any]
    """Any other verl key by its dotted path; checked against the installed verl, unknown ones refused."""
