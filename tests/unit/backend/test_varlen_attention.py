"""Packed attention: the bounds by hand, what is refused, and the kernel itself where there is a GPU."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AttentionInterface, modeling_utils

from rlhf_pipeline.backend import varlen_attention
from rlhf_pipeline.backend.varlen_attention import sequence_bounds, torch_varlen_attention

CAUSAL: Any = SimpleNamespace(is_causal=True)


def test_bounds_of_three_packed_sequences() -> None:
    bounds, longest = sequence_bounds(torch.tensor([[0, 1, 2, 0, 0, 1]]))
    assert bounds.tolist() == [0, 3, 4, 6]
    assert bounds.dtype == torch.int32
    assert longest == 3


def test_transformers_knows_the_name_once_installed() -> None:
    varlen_attention.install(modeling_utils)
    assert AttentionInterface()["torch_varlen"] is torch_varlen_attention


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"query": torch.zeros(2, 2, 3, 8)}, "padded batch"),
        ({"position_ids": None}, "padded batch"),
        ({"attention_mask": torch.ones(1, 3)}, "padded batch"),
        ({"module": SimpleNamespace(is_causal=False)}, "looks ahead"),
        ({"is_causal": False}, "looks ahead"),
        ({"dropout": 0.1}, "dropout"),
        ({"softcap": 30.0}, "soft-capped"),
        ({"s_aux": torch.zeros(2)}, "sinks"),
        ({}, "float32"),
    ],
)
def test_what_it_cannot_do_is_refused(changes: dict[str, Any], reason: str) -> None:
    rows = torch.zeros(1, 2, 3, 8)
    arguments = {
        "module": CAUSAL,
        "query": rows,
        "key": rows,
        "value": rows,
        "attention_mask": None,
        "position_ids": torch.tensor([[0, 1, 2]]),
    }
    with pytest.raises(ValueError, match=reason):
        torch_varlen_attention(**{**arguments, **changes})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("window", [None, 3])
def test_each_packed_sequence_attends_to_itself_only(window: int | None) -> None:
    torch.manual_seed(0)
    lengths, heads, kv_heads, head_dim = (5, 1, 9), 4, 2, 64
    tokens = sum(lengths)
    positions = torch.cat([torch.arange(length) for length in lengths])[None].cuda()
    query, key, value = (
        torch.randn(1, n, tokens, head_dim, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        for n in (heads, kv_heads, kv_heads)
    )
    attended, _ = torch_varlen_attention(
        CAUSAL, query, key, value, None, position_ids=positions, sliding_window=window
    )
    attended.float().square().sum().backward()

    exact = [part.detach().double().requires_grad_() for part in (query, key, value)]
    rows, start = [], 0
    for length in lengths:
        q, k, v = (part[:, :, start : start + length] for part in exact)
        k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
        distance = torch.arange(length)[:, None] - torch.arange(length)
        seen = (distance >= 0) & (distance < (window or length))
        rows.append(torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen.cuda()))
        start += length
    expected = torch.cat(rows, 2).transpose(1, 2)
    expected.square().sum().backward()

    torch.testing.assert_close(attended.double(), expected, atol=0.02, rtol=0.02)
    for part, reference in zip((query, key, value), exact, strict=True):
        assert part.grad is not None
        assert reference.grad is not None
        error = (part.grad.double() - reference.grad).norm() / reference.grad.norm()
        assert error < 0.01
