"""Seeded sampling through transformers' own `generate`, where starting vLLM costs more than it saves.

Every (prompt, sample) has its own stream of uniforms, drawn from its seed alone, so a response does
not depend on which others share its batch, beyond float rounding. Two policies that draw the same
uniforms differ only where their distributions do, which makes paired comparisons sharper.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from .models import (
    batches,
    device_of,
    dtype_of,
    load_policy,
    load_tokenizer,
    pad,
    rows_that_fit,
    sampling_threads,
)
from .sampling import Request, Response, Sampling


class InverseCdfSampling(LogitsProcessor):
    """Leaves one token per row: the first whose cumulative probability exceeds the row's next uniform."""

    def __init__(self, uniforms: torch.Tensor, temperature: float):
        """`uniforms` is float64 [rows, steps] in [0, 1)."""
        self.uniforms, self.temperature, self.step = uniforms, temperature, 0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [rows, vocabulary] with all but the sampled token at minus infinity."""
        cumulative = torch.softmax(scores.double() / self.temperature, dim=-1).cumsum(dim=-1)
        limit = self.uniforms[:, self.step, None] * cumulative[:, -1:]
        self.step += 1
        picked = (cumulative <= limit).sum(dim=-1, keepdim=True).clamp(max=scores.shape[-1] - 1)
        return torch.full_like(scores, float("-inf")).scatter(-1, picked, 0.0)


@torch.inference_mode()
def generate(folder: Path, requests: Sequence[Request], sampling: Sampling) -> list[Response]:
    """One response per request, in order; token ids end with the EOS that was sampled, if any."""
    device = device_of(sampling.device)
    model = load_policy(folder, device, dtype_of(sampling.dtype))
    tokenizer = load_tokenizer(folder)
    stops = stop_ids(model, tokenizer)
    model.generation_config = GenerationConfig(
        do_sample=False, max_new_tokens=sampling.max_tokens, eos_token_id=stops, pad_token_id=stops[0]
    )
    lengths = [len(request.prompt_ids) for request in requests]
    rows = rows_that_fit(model.config, max(lengths) + sampling.max_tokens, caches=True)
    responses: dict[int, Response] = {}
    for indices in batches(lengths, rows):
        ids, mask = pad([requests[index].prompt_ids for index in indices], stops[0], device, left=True)
        processors = LogitsProcessorList()
        if sampling.temperature > 0:
            draws = np.stack([_uniforms(requests[index].seed, sampling.max_tokens) for index in indices])
            processors.append(InverseCdfSampling(torch.from_numpy(draws).to(device), sampling.temperature))
        with sampling_threads(model):
            whole = model.generate(input_ids=ids, attention_mask=mask, logits_processor=processors)
        for index, row in zip(indices, whole[:, ids.shape[1] :].tolist(), strict=True):
            responses[index] = cut(row, stops, tokenizer)
    return [responses[index] for index in range(len(requests))]


def stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """The ids that end a response: the tokenizer's EOS first, then any the model's generation config adds."""
    configured = model.generation_config.eos_token_id
    more = configured if isinstance(configured, list) else [configured]
    return list(dict.fromkeys(stop for stop in [tokenizer.eos_token_id, *more] if stop is not None))


def cut(ids: Sequence[int], stops: Sequence[int], tokenizer: Any) -> Response:
    """The response up to and including its first stop token; `finished` when there is one."""
    end = next((place + 1 for place, token in enumerate(ids) if token in stops), None)
    kept = list(ids[:end])
    return Response(kept, tokenizer.decode(kept, skip_special_tokens=True), end is not None)


def _uniforms(seed: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.random.Generator(np.random.Philox(key=seed)).random(count)
