"""Sections of the single stages but PPO: data gate, SFT, reward model, evaluation, rollback, guards."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Count, CountOrZero, Fraction, LearningRate, NonNegative, Positive, Section

Severity = Literal["error", "warn", "off"]


class ValidateData(Section):
    on_error: Literal["stop", "quarantine"]
    """stop fails the pipeline; quarantine passes on the good rows and keeps the bad ones aside."""
    tables: list[Literal["preferences", "sft", "prompts"]]
    """Tables that must hold rows; leave out one that your sources do not fill."""
    max_reported_rows: Count
    """Offending rows listed per expectation."""
    checks: dict[str, Severity]
    """Severity by expectation name; one not named here keeps its documented severity."""
    min_rows: Count
    """Fewest training rows in any table."""
    near_duplicate_threshold: Fraction
    """Jaccard similarity of word 3-grams from which two prompts count as the same."""
    max_length_bias: Positive
    """Largest |mean log(chosen length / rejected length)| that passes."""
    max_source_share: Fraction
    """Largest share of a table's rows that one source may make up."""


class Optimiser(Section):
    lr: LearningRate
    warmup_ratio: Fraction
    """Share of the steps over which the learning rate rises from zero."""
    schedule: Literal["constant", "cosine", "linear"]
    weight_decay: NonNegative
    grad_clip: Positive


class SFT(Section):
    epochs: Count
    max_steps: CountOrZero | None
    """Stops earlier than the epochs; 0 publishes the base model unchanged (your own SFT model)."""
    batch_size: Count
    """Sequences per optimiser step over all processes. verl: data.train_batch_size."""
    micro_batch_size_per_gpu: Count
    optimiser: Optimiser
    validate_every_steps: Count
    """Validation and checkpoint interval."""
    gradient_checkpointing: bool


class RewardModel(Section):
    source: Literal["train", "path"]
    """train fits one on the preferences; path takes the folder below."""
    path: str
    """Sequence-classification folder for source: path (a DVC dependency, so it must exist)."""
    epochs: Count
    max_steps: Count | None
    batch_size: Count
    """Pairs per optimiser step over all processes."""
    micro_batch_size_per_gpu: Count
    optimiser: Optimiser
    centre_coef: NonNegative
    """Weight of (r_chosen + r_rejected)^2, which keeps scores around zero (Eisenstein et al. 2023)."""
    validate_every_steps: Count
    min_pair_accuracy: Fraction
    """Gate: PPO does not start below this accuracy on held-out prompts."""
    shuffle_labels: bool
    """Control experiment: swaps chosen and rejected at random, and skips the gate."""
    gradient_checkpointing: bool


class Evaluate(Section):
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
    judge: Literal["none", "path"]
    """path adds a second, independent judge: a sequence classifier with one output, kept out of training."""
    judge_path: str
    """Its Hugging Face folder (a DVC dependency, so it must exist)."""
    n_bootstrap: Count
    """Resamples behind each 95% interval."""
    n_shown: Count
    """Samples put side by side in the report."""


class Rollback(Section):
    enabled: bool
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
    action: GuardAction
    threshold: Positive
    """Meaning differs by guard: see docs/reliability.md."""
    window_steps: Count
    """Steps averaged before the guard looks."""


class Guards(Section):
    kl: Guard
    entropy: Guard
    reward_swing: Guard
    reward_hacking: Guard
    explained_variance: Guard
    grad_norm: Guard
    response_length: Guard
    repetition: Guard
    non_finite: Literal["off", "warn", "stop"]
    """NaN or infinity in any metric; stop also rolls back to the best step."""
