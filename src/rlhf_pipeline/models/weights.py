"""Reads safetensors headers: makes a folder's config say the stored type, counts parameters.

verl writes float32 weights beside a config that says bfloat16, and transformers loads by the config:
the published model would then not be the one that was trained. No weight is converted here.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..publish import write_json

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def record_dtype(folder: Path) -> None:
    """Set `dtype` in `folder/config.json` to the type of the safetensors weights.

    Raises:
        DataError: when the folder holds no safetensors weights in one floating-point type.
    """
    found = {dtype for file in folder.glob("*.safetensors") for dtype in dtypes(file)}
    if len(found) != 1 or not found <= NAMES.keys():
        raise DataError(
            f"{folder}: expected safetensors weights of one type, found {sorted(found) or 'none'}"
        )
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, {**config, "dtype": NAMES[found.pop()]})


def dtypes(file: Path) -> set[str]:
    """The types in a safetensors file, from its header: a length in 8 bytes, then JSON."""
    return {entry["dtype"] for entry in _tensors(file)}


def n_parameters(folder: Path) -> int:
    """Numbers in the safetensors weights of a model folder, 0 where there are none."""
    return sum(math.prod(entry["shape"]) for file in folder.glob("*.safetensors") for entry in _tensors(file))


def _tensors(file: Path) -> list[dict[str, Any]]:
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
    return [entry for name, entry in header.items() if name != "__metadata__"]
