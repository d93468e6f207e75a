"""Runs models over finished texts: reward-model scores, and log-probabilities of sampled tokens.

No sampling here (generate.py) and no statistics. Scores are read at the last real token, found by the
attention mask: a tokenizer whose padding token is also its EOS would otherwise hide the EOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from .models import batches, pad, rows_that_fit
from .statistics import Floats


class TokenLogprobs(NamedTuple):
    """Per response, one float64 array [response tokens] each, in nats."""

    policy: list[Floats]
    ref: list[Floats]
    exact_kl: list[Floats]
    """KL(policy || reference) summed over the vocabulary at each position."""


@torch.inference_mode()
def sequence_scores(model: Any, rows: Sequence[Sequence[int]], filler: int) -> Floats:
    """One score per row of token ids (prompt, response, EOS), float64 [rows]."""
    scores = np.empty(len(rows), dtype=np.float64)
    for indices in batches([len(row) for row in rows], _scoring_rows(model.config, max(map(len, rows)))):
        ids, mask = pad([rows[index] for index in indices], filler, model.device)
        scores[indices] = _last_token_scores(model, ids, mask).double().cpu().numpy()
    return scores


def _last_token_scores(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    if not hasattr(model, "score"):  # encoders keep their head under other names and pool by themselves
        return model(input_ids=ids, attention_mask=mask).logits[:, 0]
    hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    last = (mask.sum(dim=1) - 1).to(hidden.device)
    return model.score(hidden[torch.arange(len(ids), device=hidden.device), last])[:, 0]


@torch.inference_mode()
def token_logprobs(
    policy: Any,
    ref: Any,
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    filler: int,
    temperature: float,
) -> TokenLogprobs:
    """What both models think of the responses' tokens, at the sampling temperature.

    `prompts` and `responses` are token ids, row by row; greedy samples (temperature 0) are judged at 1.
    """
    heat = temperature or 1.0
    rows = [[*prompt, *response] for prompt, response in zip(prompts, responses, strict=True)]
    found = TokenLogprobs(*([np.empty(0)] * len(rows) for _ in range(3)))
    for indices in batches(
        [len(row) for row in rows], rows_that_fit(policy.config, max(map(len, rows)), False)
    ):
        ids, mask = pad([rows[index] for index in indices], filler, policy.device)
        # Only positions that predict a response token are ever looked at.
        first = min(len(prompts[index]) for index in indices) - 1
        ours = _distribution(policy, ids, mask, first, heat)
        theirs = _distribution(ref, ids, mask, first, heat)
        width = min(ours.shape[-1], theirs.shape[-1])
        ours, theirs = ours[..., :width], theirs[..., :width]
        exact = (ours.exp() * (ours - theirs)).sum(-1)
        target = ids[:, first + 1 :, None]
        chosen = [part.gather(-1, target)[..., 0] for part in (ours, theirs)]
        for row, index in enumerate(indices):
            start = len(prompts[index]) - 1 - first
            place = slice(start, start + len(responses[index]))
            for store, values in zip(found, (*chosen, exact), strict=True):
                store[index] = values[row, place].double().cpu().numpy()
    return found


def _distribution(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, first: int, temperature: float
) -> torch.Tensor:
    """Log-probabilities of the next token from position `first` on, [rows, positions, vocabulary]."""
    keep = ids.shape[1] - first
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=keep).logits
    return torch.log_softmax(logits[:, :-1].float() / temperature, dim=-1).to(ids.device)


def _scoring_rows(config: Any, longest: int) -> int:
    """Rows at once when no logits are made: bounded by the widest activation."""
    width = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    return int(max(1, min(512, 2**27 // (4 * longest * width))))
