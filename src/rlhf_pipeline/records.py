"""The three tables that stages hand to each other, as Arrow schemas, and the hash that splits them.

Holds schemas and the prompt hash only; reading source formats is `data/`'s job.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence

import pyarrow as pa

MESSAGE = pa.struct([pa.field("role", pa.string()), pa.field("content", pa.string())])
MESSAGES = pa.list_(MESSAGE)

PREFERENCES = pa.schema(
    [
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("prompt", MESSAGES, nullable=False),
        pa.field("chosen", pa.string(), nullable=False),
        pa.field("rejected", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("margin", pa.float64()),
    ]
)
SFT = pa.schema(
    [
        pa.field("prompt_id", pa.string(), nullable=False),
        pa.field("messages", MESSAGES, nullable=False),
        pa.field("source", pa.string(), nullable=False),
    ]
)
# verl's RL dataset schema (verl.utils.dataset.rl_dataset.RLHFDataset).
PROMPTS = pa.schema(
    [
        pa.field("data_source", pa.string(), nullable=False),
        pa.field("prompt", MESSAGES, nullable=False),
        pa.field("ability", pa.string(), nullable=False),
        pa.field(
            "reward_model",
            pa.struct([pa.field("style", pa.string()), pa.field("ground_truth", pa.string())]),
            nullable=False,
        ),
        pa.field(
            "extra_info",
            pa.struct(
                [
                    pa.field("prompt_id", pa.string()),
                    pa.field("split", pa.string()),
                    pa.field("index", pa.int64()),
                ]
            ),
            nullable=False,
        ),
    ]
)
SCHEMAS = {"preferences": PREFERENCES, "sft": SFT, "prompts": PROMPTS}


def normalised(text: str) -> str:
    """NFKC, lower case, single spaces: two prompts that read the same are the same."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def prompt_id(prompt: Sequence[dict[str, str]]) -> str:
    """16 hex digits of the sha256 of the normalised messages; equal prompts share it in every table."""
    canonical = [[message["role"], normalised(message["content"])] for message in prompt]
    return hashlib.sha256(json.dumps(canonical, ensure_ascii=False).encode()).hexdigest()[:16]


def split_of(identifier: str, validation_fraction: float, test_fraction: float) -> str:
    """The split of a prompt id: its hash as a fraction of 1, so that no prompt is ever in two splits."""
    place = _place("split", identifier)
    if place < test_fraction:
        return "test"
    return "validation" if place < test_fraction + validation_fraction else "train"


def is_judges(identifier: str, share: float) -> bool:
    """Whether the pairs of a prompt id are the judge's to learn from, not the reward model's; by its hash."""
    return _place("judge", identifier) < share


def _place(purpose: str, identifier: str) -> float:
    """The hash of an identifier as a fraction of 1, another one for each purpose."""
    return int(hashlib.sha256(f"{purpose}:{identifier}".encode()).hexdigest()[:12], 16) / 16**12
