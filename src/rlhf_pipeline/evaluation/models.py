"""Loads a policy or a reward model from its Hugging Face folder and cuts work into batches that fit.

Imports torch, so only code that is about to run a model imports this file. Folders are checked first,
so that a missing or foreign one is the user's error, not a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ..errors import DataError

_SMALL_MODEL = 20_000_000
_LOGIT_BYTES = 256 * 2**20
_CACHE_BYTES = 2**30
_MOST_ROWS = 512


def device_of(name: str) -> torch.device:
    """The device behind `hardware.device`; auto takes CUDA when torch sees a GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def dtype_of(name: str) -> torch.dtype:
    """The torch dtype behind `hardware.dtype`."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def require_model(folder: Path) -> None:
    """Raise DataError unless `folder` holds a Hugging Face model."""
    if not (folder / "config.json").is_file():
        raise DataError(
            f"{folder} holds no model (no config.json): run the stage that makes it, or name another"
        )


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn transformers' refusal of a model, such as one that brings its own code, into the user's error."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"{folder} cannot be loaded: {error}") from None


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer.

    Raises:
        DataError: when the folder has none.
    """
    from transformers import AutoTokenizer

    require_model(folder)
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder} holds no tokenizer that transformers can read: {error}") from None


def load_policy(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """The folder's causal language model, in evaluation mode, on `device`."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    require_model(folder)
    placement = _placement(folder, device)
    with _readable(folder):
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, **placement
        )
    return model.eval().requires_grad_(False)


def load_reward_model(folder: Path, device: torch.device, dtype: torch.dtype) -> Any:
    """The folder's sequence classifier with one output, in evaluation mode, on `device`.

    Raises:
        DataError: when its head has not exactly one output, or its weights lack a head.
    """
    from transformers import AutoModelForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    require_model(folder)
    with _readable(folder):
        model, info = AutoModelForSequenceClassification.from_pretrained(
            folder, dtype=dtype, local_files_only=True, trust_remote_code=False, output_loading_info=True,
            **_placement(folder, device),
        )  # fmt: skip
    if model.config.num_labels != 1:
        raise DataError(
            f"{folder} classifies into {model.config.num_labels} labels; a reward model has num_labels 1"
        )
    if info["missing_keys"]:
        raise DataError(
            f"{folder} is no trained reward model: its weights lack {', '.join(sorted(info['missing_keys']))}"
        )
    return model.eval().requires_grad_(False)


def vocabulary(folder: Path) -> int:
    """Number of logits per position, from the folder's config.json."""
    return int(_text_config(folder)["vocab_size"])


def rows_that_fit(config: Any, n_tokens: int, caches: bool) -> int:
    """Rows of `n_tokens` to run at once: bounded logits and, when sampling (`caches`), bounded KV cache."""
    positions = 1 if caches else n_tokens
    rows = _LOGIT_BYTES // (8 * positions * config.vocab_size)
    if caches:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        rows = min(rows, _CACHE_BYTES // (8 * config.num_hidden_layers * heads * head_dim * n_tokens))
    return int(max(1, min(rows, _MOST_ROWS)))


@contextmanager
def sampling_threads(model: Any) -> Iterator[None]:
    """One CPU thread while a small model samples: waking a second takes longer than its layers do."""
    threads = torch.get_num_threads()
    small = sum(weights.numel() for weights in model.parameters()) < _SMALL_MODEL
    torch.set_num_threads(1 if small else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def batches(lengths: Sequence[int], rows: int) -> Iterator[list[int]]:
    """Indices of rows, longest first, at most `rows` at a time: like lengths waste little padding."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    for start in range(0, len(order), rows):
        yield order[start : start + rows]


def pad(
    rows: Sequence[Sequence[int]], filler: int, device: torch.device, left: bool = False
) -> tuple[Any, Any]:
    """Token ids and attention mask (1 for real tokens), int64 [rows, longest]."""
    longest = max(len(row) for row in rows)
    ids = torch.full((len(rows), longest), filler, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for index, row in enumerate(rows):
        place = slice(longest - len(row), longest) if left else slice(0, len(row))
        ids[index, place] = torch.tensor(row, dtype=torch.long)
        mask[index, place] = 1
    return ids.to(device), mask.to(device)


def _placement(folder: Path, device: torch.device) -> dict[str, Any]:
    """Where `from_pretrained` puts the weights: on `device`, or over all GPUs when they fill half of one."""
    if device.type != "cuda":
        return {}
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    crowded = 2 * weights > torch.cuda.mem_get_info()[0]
    return {"device_map": "auto" if crowded and torch.cuda.device_count() > 1 else {"": 0}}


def _text_config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config.get("text_config", config)
