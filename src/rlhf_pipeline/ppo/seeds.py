"""Sampling seeds that depend only on what is sampled, never on what ran before.

This is the base of exact resume: a step replayed after a kill asks vLLM for the same random
numbers. Pure, no dependencies.
"""

from __future__ import annotations

import hashlib


def sampling_seed(run_seed: int, step: int, prompt_index: int, sample: int, validate: bool) -> int:
    """A 31-bit seed for one response.

    Validation leaves the step out, so that every validation of a run samples each prompt with the
    same random numbers and two policies are compared on them (common random numbers).
    """
    moment = "validation" if validate else f"step {step}"
    key = f"{run_seed}/{moment}/{prompt_index}/{sample}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") >> 1
