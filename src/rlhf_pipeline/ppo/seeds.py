"""What makes a step repeatable: sampling seeds and the order of a batch, from what is sampled alone.

This is the base of exact resume: a step replayed after a kill asks vLLM for the same random numbers, and
sums over its batch in the same order. Pure, no dependencies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence


def sampling_seed(run_seed: int, step: int, prompt_index: int, sample: int, validate: bool) -> int:
    """A 31-bit seed for one response.

    Validation leaves the step out, so that every validation of a run samples each prompt with the
    same random numbers and two policies are compared on them (common random numbers).
    """
    moment = "validation" if validate else f"step {step}"
    key = f"{run_seed}/{moment}/{prompt_index}/{sample}"
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") >> 1


def batch_order(keys: Sequence[str], fetched: Mapping[str, int]) -> list[int]:
    """Places of a batch's trajectories in the order in which the data gave their prompts.

    verl hands them over in the order in which they finished, which no two runs share, and the last bits of
    a gradient depend on it. Keys are verl's `<uid>_<session>_<index>`, `fetched` is the place of each uid;
    a key that the data did not give (padding) goes to the end, in its place.
    """

    def place(index: int) -> tuple[int, list[int], int]:
        uid, *rest = keys[index].split("_")
        if uid not in fetched or not all(part.isdigit() for part in rest):
            return len(fetched), [], index
        return fetched[uid], [int(part) for part in rest], index

    return sorted(range(len(keys)), key=place)
