"""The data loader's position as JSON, so that a step's own state holds no pickle.

torchdata's state is nested dicts of plain values and small tensors (the sampler's generator).
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import torch

from ..publish import write_text

TENSOR = "tensor"


def save_position(path: Path, state: dict[str, Any]) -> None:
    """Write a StatefulDataLoader's state.

    Raises:
        TypeError: when it holds anything but dicts with text keys, lists, plain values and tensors.
    """
    write_text(path, json.dumps(_plain(state)) + "\n")


def load_position(path: Path) -> dict[str, Any]:
    """What `save_position` wrote."""
    state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), object_hook=_restored)
    return state


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        numbers = value.detach().cpu().contiguous().numpy()
        data = base64.b64encode(numbers.tobytes()).decode()
        return {TENSOR: data, "dtype": str(numbers.dtype), "shape": list(numbers.shape)}
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"the data loader's state has keys that are no text: {list(value)}")
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"the data loader's state holds a {type(value).__name__}")


def _restored(entry: dict[str, Any]) -> Any:
    if entry.keys() != {TENSOR, "dtype", "shape"}:
        return entry
    data = bytearray(base64.b64decode(entry[TENSOR]))
    return torch.frombuffer(data, dtype=getattr(torch, entry["dtype"])).reshape(entry["shape"])
