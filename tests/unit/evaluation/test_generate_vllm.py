"""The vLLM engine for real, on whatever device this machine has; on CPU it answers greedily as torch does."""

from typing import Any

import pytest

from rlhf_pipeline.evaluation import generate_torch, generate_vllm
from rlhf_pipeline.evaluation.sampling import Request, Sampling, seed_of
from rlhf_pipeline.hardware import resolve_device
from rlhf_pipeline.params import parse

from .conftest import save_tiny


@pytest.mark.long
def test_vllm_gives_the_greedy_answers_of_torch_and_seeds_every_request(
    tiny: Any, params: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    device = resolve_device(parse(params.model_dump(mode="json"), {"hardware.device": "auto"}))
    dtype = "float32" if device == "cpu" else "bfloat16"
    sampling = Sampling("vllm", 10, 0.0, device, dtype, 1, 0.2)
    requests = [Request([5 + index, 20, 21], seed_of(7, str(index), 0)) for index in range(4)]
    # vLLM's CPU attention has kernels for heads of 32 and more.
    model = save_tiny(tmp_path / "model", 2, tiny.tokenizer, hidden_size=64)
    found = generate_vllm.generate(model, requests, sampling)
    if device == "cpu":  # in bfloat16 two engines may break near ties differently
        assert found == generate_torch.generate(model, requests, sampling)
    # The same job again at temperature 1, twice each request: equal seeds give equal answers.
    doubled = generate_vllm.generate(model, [*requests, *requests], sampling._replace(temperature=1.0))
    assert doubled[:4] == doubled[4:]
    assert doubled[:4] != found
