"""What is asked of a sampler and what comes back: plain data, with the seed of every single sample.

Imports nothing heavy, so that a cache can be looked up before torch loads.
"""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple


class Request(NamedTuple):
    """One response to sample."""

    prompt_ids: list[int]
    seed: int
    """Below 2**63; the only source of randomness of this response."""


class Response(NamedTuple):
    """One sampled response."""

    token_ids: list[int]
    """With the EOS that ended it, if one did."""
    text: str
    """Without special tokens."""
    finished: bool
    """False when it was cut off at the token budget."""


class Sampling(NamedTuple):
    """How to sample; part of the cache's key."""

    engine: str
    """torch or vllm, never auto."""
    max_tokens: int
    temperature: float
    device: Literal["cpu", "cuda"]
    dtype: str
    tensor_parallel_size: int
    gpu_memory_utilization: float


def seed_of(run_seed: int, prompt_id: str, sample: int) -> int:
    """63 bits that depend on the run's seed, the prompt and the number of the sample, and on nothing else."""
    words = hashlib.sha256(f"sample:{run_seed}:{prompt_id}:{sample}".encode()).digest()
    return int.from_bytes(words[:8], "big") >> 1
