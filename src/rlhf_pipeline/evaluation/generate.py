"""Samples a policy's responses once and keeps the answer under everything it depends on.

A second request for the same model, prompts, seeds and sampling reads the cache, whoever asks (the
stage, the compare command, the release step). Engines are in generate_torch.py and generate_vllm.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .. import paths
from ..publish import files_below, sha256_of
from .sampling import Request, Response, Sampling

CACHE = paths.SCRATCH / "generations"
_KEPT = 16
_WEIGHTS_AND_WORDS = (".safetensors", ".bin", ".json", ".jinja", ".model", ".txt")


def cached_generate(folder: Path, requests: Sequence[Request], sampling: Sampling) -> list[Response]:
    """One response per request, in order, sampled now or read from the cache."""
    place = CACHE / f"{_key(folder, requests, sampling)}.parquet"
    if place.exists():
        place.touch()
        return [Response(*row.values()) for row in pq.read_table(place).to_pylist()]
    if sampling.engine == "vllm":
        from .generate_vllm import generate
    else:
        from .generate_torch import generate
    responses = generate(folder, requests, sampling)
    _store(place, responses)
    return responses


def model_digest(folder: Path) -> str:
    """sha256 over a model folder's weights, configuration and tokenizer, by name and content."""
    digest = hashlib.sha256()
    for path in files_below(folder):
        if path.suffix in _WEIGHTS_AND_WORDS:
            digest.update(f"{path.relative_to(folder)}:{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _key(folder: Path, requests: Sequence[Request], sampling: Sampling) -> str:
    asked = json.dumps([sampling._asdict(), list(requests)]).encode()
    return hashlib.sha256(model_digest(folder).encode() + asked).hexdigest()[:24]


def _store(place: Path, responses: Sequence[Response]) -> None:
    """Write by rename, then forget the generations that were used longest ago."""
    place.parent.mkdir(parents=True, exist_ok=True)
    work = place.with_suffix(".writing")
    columns = {
        "token_ids": pa.array([row.token_ids for row in responses], pa.list_(pa.int32())),
        "text": [row.text for row in responses],
        "finished": [row.finished for row in responses],
    }
    pq.write_table(pa.table(columns), work)
    work.replace(place)
    by_age = sorted(place.parent.glob("*.parquet"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in by_age[_KEPT:]:
        old.unlink(missing_ok=True)
