"""Sections of the single stages but PPO: data gate, SFT, reward model, evaluation, rollback, guards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Count, CountOrZero, Fraction, LearningRate, NonNegative, Positive, Section

Severity = Literal["error", "warn", "off"]


class CheckParams(Section):
    severity: Severity
    max_fraction: Fraction
    """Share of the rows that may offend before the expectation fails."""


class ValidateData(Section):
    """The data gate: what makes rows unfit for training."""

    on_error: Literal["stop", "quarantine"]
    """stop fails the pipeline; quarantine passes on the good rows and keeps the bad ones aside."""
    tables: list[Literal["preferences", "sft", "prompts"]]
    """Tables that must hold rows; leave out one that your sources do not fill."""
    max_reported_rows: Count
    """Offending rows listed per expectation."""
    checks: dict[str, Severity | CheckParams]
    """Severity, or severity and tolerance, by expectation name; others keep their documented severity."""
    min_rows: Count
    """Fewest training rows in any table."""
    near_duplicate_threshold: Fraction
    """Jaccard similarity of word 3-grams from which two prompts count as the same."""
    max_length_bias: Positive
    """Largest |mean log(chosen length / rejected length)| that passes."""
    max_source_share: Fraction
    """Largest share of a table's rows that one source may make up."""
    contamination_words: Count
    """A training row and a benchmark prompt with so many words in a row in common count as the same."""
    scripts: list[str] | None
    """Unicode scripts that text may be written in, such as [Latin]; null allows all."""


class Optimiser(Section):
    """AdamW and its learning-rate schedule."""

    lr: LearningRate
    """Highest learning rate."""
    warmup_ratio: Fraction
    """Share of the steps over which the learning rate rises from zero."""
    schedule: Literal["constant", "cosine", "linear"]
    """Course of the learning rate after the warm-up."""
    weight_decay: NonNegative
    """Decoupled weight decay."""
    grad_clip: Positive
    """Largest gradient norm; larger ones are scaled down to it."""


class SFT(Section):
    """Supervised fine-tuning on the sft table."""

    epochs: Count
    """Passes over the training rows."""
    max_steps: CountOrZero | None
    """Stops earlier than the epochs; 0 publishes the base model unchanged (your own SFT model)."""
    batch_size: Count
    """Sequences per optimiser step over all processes. verl: data.train_batch_size."""
    micro_batch_size_per_gpu: Count
    """Sequences per forward and backward pass; lower it when memory runs out."""
    optimiser: Optimiser
    validate_every_steps: Count
    """Validation and checkpoint interval."""
    gradient_checkpointing: bool
    """Recomputes activations in the backward pass: less memory, about a third more time."""


class RewardModel(Section):
    """The Bradley-Terry reward model, trained on the preferences table."""

    source: Literal["train", "path", "none"]
    """train fits one, path takes the folder below, none makes none (ppo.reward.source: rule or function)."""
    path: str
    """Sequence-classification folder for source: path (a DVC dependency, so it must exist)."""
    epochs: Count
    """Passes over the training pairs."""
    max_steps: Count | None
    """Stops earlier than the epochs."""
    batch_size: Count
    """Pairs per optimiser step over all processes."""
    micro_batch_size_per_gpu: Count
    """Pairs per forward and backward pass; lower it when memory runs out."""
    optimiser: Optimiser
    centre_coef: NonNegative
    """Weight of (r_chosen + r_rejected)^2, which keeps scores around zero (Eisenstein et al. 2023)."""
    validate_every_steps: Count
    """Validation and checkpoint interval."""
    min_pair_accuracy: Fraction
    """Gate: PPO does not start below this accuracy on held-out prompts."""
    shuffle_labels: bool
    """Control experiment: swaps chosen and rejected at random, and skips the gate."""
    gradient_checkpointing: bool
    """Recomputes activations in the backward pass: less memory, about a third more time."""


class Evaluate(Section):
    """The comparison of policy and SFT model on the test prompts."""

    n_prompts: Count
    """Test prompts used, at most."""
    samples_per_prompt: Count
    """Responses sampled per prompt; above 1 for pass@k and best-of-n."""
    temperature: NonNegative
    """0 is greedy; KL is then measured at 1."""
    engine: Literal["auto", "torch", "vllm"]
    """What samples the responses; auto takes vllm on CUDA and torch on CPU, where vLLM starts slowly."""
    gpu_memory_utilization: Fraction
    """Share of the GPU that vLLM may take while sampling; ignored on CPU."""
    judge: Literal["none", "train", "path"]
    """A second, independent judge: train fits one on pairs kept from the reward model; path: a folder."""
    judge_share: Annotated[float, Field(gt=0.0, lt=1.0)]
    """For judge: train, the share of the prompts whose training pairs are the judge's alone."""
    judge_path: str
    """For judge: path, a sequence classifier with one output (a DVC dependency, so it must exist)."""
    n_bootstrap: Count
    """Resamples behind each 95% interval."""
    n_shown: Count
    """Samples put side by side in the report."""


class Rollback(Section):
    """What happens inside a PPO run when the validation score drops."""

    enabled: bool
    """false lets a run go on whatever its score does."""
    max_drop: Annotated[float, Field(gt=0.0, lt=1.0)]
    """Relative drop below the best validation score that triggers a rollback."""
    confirm: Literal["paired_bootstrap", "none"]
    """paired_bootstrap acts only when the drop's 95% upper bound is below zero on the same prompts."""
    max_rollbacks: CountOrZero
    """After so many the run stops with the best checkpoint."""
    kl_coef_factor: Positive
    """On rollback the KL coefficients are multiplied by this."""
    lr_factor: Annotated[float, Field(gt=0.0, le=1.0)]
    """On rollback the learning rates are multiplied by this."""


GuardAction = Literal["off", "warn", "act", "stop"]


class Guard(Section):
    """A watch over one training metric."""

    action: GuardAction
    """off, warn (log it), act (also correct it), stop (also end the run with its best step)."""
    threshold: Positive
    """Meaning differs by guard: see docs/reliability.md."""
    window_steps: Count
    """Newest steps that are compared with the run's course before them."""


class GuardActs(Section):
    """How far a guard set to act turns each knob."""

    kl_coef_factor: Annotated[float, Field(gt=1.0)]
    """The KL coefficients are multiplied by this."""
    lr_factor: Annotated[float, Field(gt=0.0, lt=1.0)]
    """The learning rates are multiplied by this."""
    entropy_coeff_factor: Annotated[float, Field(gt=1.0)]
    """The actor's entropy_coeff is multiplied by this,"""
    entropy_coeff_floor: Positive
    """and is at least this afterwards."""


class Guards(Section):
    """Watches over a PPO run; docs/reliability.md explains each."""

    baseline_steps: Annotated[int, Field(ge=5, le=500)]
    """Steps before a guard's window that count as the run's own course."""
    cooldown_steps: Count
    """After acting a guard waits so long for the effect."""
    act: GuardActs
    kl: Guard
    """KL to the reference policy runs away; acts by raising the KL coefficients, then lowering lr."""
    entropy: Guard
    """The policy becomes certain too early; acts by raising entropy_coeff."""
    reward_swing: Guard
    """The mean score falls back by more than a share of its spread at the start."""
    reward_hacking: Guard
    """The reward rises while the gold score, or the validation score, falls."""
    explained_variance: Guard
    """The critic explains much less of the returns than it did."""
    grad_norm: Guard
    """Gradients grow many times over."""
    response_length: Guard
    """Responses become much longer or shorter than they were."""
    repetition: Guard
    """Responses repeat each other or their own n-grams."""
    non_finite: Literal["off", "warn", "stop"]
    """NaN or infinity in any metric; stop also rolls back to the best step."""
