"""Attention over packed sequences on GPUs without flash-attn: transformers' name "torch_varlen".

torch carries the FlashAttention-2 kernels itself (torch.nn.attention.varlen); this registers them
with transformers for causal models whose sequences lie one after the other in a single row, as
verl packs them with use_remove_padding=True. Works in bfloat16 and float16 on CUDA only. Not here:
padded batches, attention sinks, soft-capped scores, dropout, and verl's Ulysses sequence
parallelism, which verl builds into flash-attn's function only.
"""

from __future__ import annotations

from typing import Any

import torch

NAME = "torch_varlen"


def sequence_bounds(position_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Where the sequences of a packed row begin and end, and the longest one's length.

    position_ids: (1, tokens) or (tokens,), each sequence counting from 0. Returns the bounds
    (sequences + 1,) in int32, from 0 to tokens, and the length in tokens.
    """
    positions = position_ids.reshape(-1)
    starts = torch.nonzero(positions == 0).flatten()
    bounds = torch.cat([starts, starts.new_tensor([positions.numel()])]).to(torch.int32)
    return bounds, int(bounds.diff().max())


def torch_varlen_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    position_ids: torch.Tensor | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention function for one packed row.

    query: (1, heads, tokens, head_dim); key and value: (1, kv_heads, tokens, head_dim), where
    kv_heads divides heads. Returns (1, tokens, heads, head_dim) in the query's dtype, and no
    attention weights. `sliding_window` counts the tokens that one token sees, itself included.

    Raises ValueError for what the kernel or this function cannot do; see the module's docstring.
    """
    from torch.nn.attention.varlen import varlen_attn

    _refuse_what_is_not_supported(module, query, attention_mask, position_ids, dropout, kwargs)
    assert position_ids is not None
    bounds, longest = _bounds_once(position_ids)
    dtype = _half_precision(query)
    query_rows, key_rows, value_rows = (part[0].transpose(0, 1).to(dtype) for part in (query, key, value))
    left = -1 if sliding_window is None else sliding_window - 1
    attended = varlen_attn(
        query_rows,
        key_rows,
        value_rows,
        bounds,
        bounds,
        longest,
        longest,
        scale=scaling,
        window_size=(left, 0),
    )
    return attended.unsqueeze(0).to(query.dtype), None


def install(modeling_utils: Any) -> None:
    """Register the function with `modeling_utils`, the module transformers.modeling_utils."""
    modeling_utils.AttentionInterface.register(NAME, torch_varlen_attention)


def _bounds_once(position_ids: torch.Tensor) -> tuple[torch.Tensor, int]:
    # Every layer gets the same tensor, and finding the bounds waits for the GPU: the answer is
    # kept on the tensor, so it lives as long as the tensor does.
    known = getattr(position_ids, "_sequence_bounds", None)
    if known is None:
        known = sequence_bounds(position_ids)
        position_ids._sequence_bounds = known
    return known


def _half_precision(query: torch.Tensor) -> torch.dtype:
    """The dtype to attend in: the query's, or autocast's where a layer left autocast for float32."""
    if query.dtype in (torch.bfloat16, torch.float16):
        return query.dtype
    if torch.is_autocast_enabled("cuda"):
        return torch.get_autocast_dtype("cuda")
    raise ValueError(f"{NAME} attends in bfloat16 or float16, got {query.dtype}; use sdpa for float32")


def _refuse_what_is_not_supported(
    module: torch.nn.Module,
    query: torch.Tensor,
    attention_mask: torch.Tensor | None,
    position_ids: torch.Tensor | None,
    dropout: float,
    kwargs: dict[str, Any],
) -> None:
    from verl.utils.ulysses import get_ulysses_sequence_parallel_world_size

    causal = kwargs.get("is_causal")
    causal = getattr(module, "is_causal", True) if causal is None else causal
    reasons = {
        "a padded batch (set use_remove_padding=True)": query.shape[0] != 1
        or position_ids is None
        or attention_mask is not None,
        "attention that looks ahead": not causal,
        "dropout": dropout != 0.0,
        "soft-capped scores": kwargs.get("softcap") is not None,
        "attention sinks": kwargs.get("s_aux") is not None,
        "Ulysses sequence parallelism": get_ulysses_sequence_parallel_world_size() > 1,
    }
    if refused := [reason for reason, found in reasons.items() if found]:
        raise ValueError(f"{NAME} does not support {' or '.join(refused)}; use sdpa or flash_attention_2")
