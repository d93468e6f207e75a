"""Token log-probabilities in chunks of rows, for machines without flash-attn's cross-entropy.

Without that kernel verl takes one Python step per token row, in the logits' own precision (three
decimal digits in bfloat16). Here both directions go through a few rows at a time in float32, and
the softmax is recomputed in the backward pass instead of being kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import once_differentiable

# A chunk's float32 copy is 4 bytes for each of these: 256 MiB.
ELEMENTS_PER_CHUNK = 2**26


def logprobs_from_logits(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """log softmax(logits) at `labels`, in nats.

    logits: (..., vocabulary), floating point; labels: (...), int64. Returns (...) in float32, or
    float64 for float64 logits. Differentiable once, in `logits`. Stands in for verl's function
    logprobs_from_logits_v2.
    """
    rows = logits.reshape(-1, logits.shape[-1])
    return _ChunkedLogprobs.apply(rows, labels.reshape(-1)).view(labels.shape)


def install(torch_functional: Any) -> None:
    """Make `torch_functional`, the module verl.utils.torch_functional, use this where it has no kernel."""
    if not callable(getattr(torch_functional, "logprobs_from_logits_v2", None)):
        raise AttributeError("verl.utils.torch_functional has no logprobs_from_logits_v2")
    torch_functional.logprobs_from_logits_v2 = logprobs_from_logits


def _chunks(logits: torch.Tensor) -> Iterator[slice]:
    n_rows, vocabulary = logits.shape
    step = max(1, ELEMENTS_PER_CHUNK // vocabulary)
    return (slice(start, start + step) for start in range(0, n_rows, step))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` in the precision to compute in."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class _ChunkedLogprobs(torch.autograd.Function):
    """With p = softmax(x) and l = log p[y]: dl/dx[j] = (j == y) - p[j]."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """logits (rows, vocabulary), labels (rows) -> (rows)."""
        ctx.save_for_backward(logits, labels)
        logprobs = _wide(logits.new_empty(labels.shape))
        for chunk in _chunks(logits):
            all_logprobs = torch.log_softmax(_wide(logits[chunk]), dim=-1)
            logprobs[chunk] = all_logprobs.gather(-1, labels[chunk].unsqueeze(-1)).squeeze(-1)
        return logprobs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels = ctx.saved_tensors
        grad_logits = torch.empty_like(logits)
        for chunk in _chunks(logits):
            row_grad = grad[chunk].unsqueeze(-1)
            wide = torch.softmax(_wide(logits[chunk]), dim=-1).mul_(-row_grad)
            # Rounded to the logits' dtype only when it is complete.
            grad_logits[chunk] = wide.scatter_add_(-1, labels[chunk].unsqueeze(-1), row_grad)
        return grad_logits, None
