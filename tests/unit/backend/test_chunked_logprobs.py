"""Chunked log-probabilities: values by hand, gradients against float64, chunks that change nothing."""

import math
from types import SimpleNamespace

import pytest
import torch

from rlhf_pipeline.backend import chunked_logprobs
from rlhf_pipeline.backend.chunked_logprobs import logprobs_from_logits


def test_values_and_gradient_by_hand() -> None:
    # softmax(0, log 3) = (1/4, 3/4)
    logits = torch.tensor([[0.0, math.log(3)], [0.0, math.log(3)]], requires_grad=True)
    logprobs = logprobs_from_logits(logits, torch.tensor([0, 1]))
    torch.testing.assert_close(logprobs, torch.tensor([math.log(1 / 4), math.log(3 / 4)]))
    logprobs.backward(torch.tensor([1.0, 2.0]))
    # row 0: 1 * (1 - 1/4, 0 - 3/4); row 1: 2 * (0 - 1/4, 1 - 3/4)
    torch.testing.assert_close(logits.grad, torch.tensor([[0.75, -0.75], [-0.5, 0.5]]))


@pytest.mark.parametrize("rows_per_chunk", [1, 2, 3, 100])
def test_chunks_change_neither_values_nor_gradients(
    monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int
) -> None:
    monkeypatch.setattr(chunked_logprobs, "ELEMENTS_PER_CHUNK", rows_per_chunk * 11)
    torch.manual_seed(0)
    logits = torch.randn(2, 4, 11, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(11, (2, 4))
    expected = torch.log_softmax(logits, -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(logprobs_from_logits(logits, labels), expected)
    assert torch.autograd.gradcheck(lambda x: logprobs_from_logits(x, labels), logits)


def test_bfloat16_logits_give_float32_logprobs() -> None:
    torch.manual_seed(0)
    logits = torch.randn(64, 1000).bfloat16().requires_grad_()
    labels = torch.randint(1000, (64,))
    exact = torch.log_softmax(logits.double(), -1)
    logprobs = logprobs_from_logits(logits, labels)
    assert logprobs.dtype == torch.float32
    torch.testing.assert_close(
        logprobs.double(), exact.gather(-1, labels.unsqueeze(-1)).squeeze(-1), atol=1e-5, rtol=0
    )
    logprobs.sum().backward()
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16
    one_hot = torch.nn.functional.one_hot(labels, 1000)
    torch.testing.assert_close(logits.grad.double(), one_hot - exact.exp(), atol=0.004, rtol=0.01)


def test_huge_logits_do_not_overflow() -> None:
    logits = torch.tensor([[1e4, 0.0], [-1e4, -1e4]])
    logprobs = logprobs_from_logits(logits, torch.tensor([1, 0]))
    torch.testing.assert_close(logprobs, torch.tensor([-1e4, -math.log(2)]))


def test_no_rows_give_no_logprobs() -> None:
    assert logprobs_from_logits(torch.empty(0, 5), torch.empty(0, dtype=torch.int64)).shape == (0,)


def test_a_verl_without_the_function_is_noticed() -> None:
    with pytest.raises(AttributeError, match="logprobs_from_logits_v2"):
        chunked_logprobs.install(SimpleNamespace())


def test_verl_uses_it_where_it_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    import verl.utils.torch_functional as torch_functional

    if torch_functional.FLAH_ATTN_CROSS_ENTROPY_LOSS_AVAILABLE:
        pytest.skip("flash-attn is installed")
    monkeypatch.setattr(torch_functional, "logprobs_from_logits_v2", torch_functional.logprobs_from_logits_v2)
    logits, labels = torch.randn(5, 7), torch.randint(7, (5,))
    before = torch_functional.logprobs_from_logits(logits, labels)
    chunked_logprobs.install(torch_functional)
    assert torch_functional.logprobs_from_logits_v2 is logprobs_from_logits
    torch.testing.assert_close(torch_functional.logprobs_from_logits(logits, labels), before)
