"""Seeded sampling: the right distribution, independence from the batch, stops, and the cache."""

from typing import Any

import numpy as np
import pytest
import torch

from rlhf_pipeline.evaluation import generate as cache
from rlhf_pipeline.evaluation.generate_torch import InverseCdfSampling, cut, generate
from rlhf_pipeline.evaluation.sampling import Request, Response, Sampling, seed_of

SAMPLING = Sampling("torch", 10, 1.0, "cpu", "float32", 1, 0.5)
REQUESTS = [Request([5 + index, 20, 21][: 1 + index % 3], seed_of(7, str(index), 0)) for index in range(6)]


def test_inverse_cdf_draws_each_token_as_often_as_its_probability() -> None:
    uniforms = torch.from_numpy(np.random.default_rng(0).random((20000, 1)))
    logits = torch.log(torch.tensor([0.5, 0.0, 0.3, 0.2])).expand(20000, 4)
    picked = InverseCdfSampling(uniforms, 1.0)(torch.zeros(20000, 1), logits).argmax(-1)
    share = torch.bincount(picked, minlength=4) / 20000
    torch.testing.assert_close(share, torch.tensor([0.5, 0.0, 0.3, 0.2]), atol=0.012, rtol=0)


def test_temperature_sharpens() -> None:
    uniforms = torch.full((1, 1), 0.7, dtype=torch.float64)
    logits = torch.log(torch.tensor([[0.6, 0.4]]))
    # At temperature 1 the draw 0.7 is above 0.6; at 0.5 the first token's share is 0.36 / 0.52 = 0.692;
    # at 0.25 it is 0.835, which the draw no longer exceeds.
    assert [InverseCdfSampling(uniforms, t)(logits, logits).argmax().item() for t in (1.0, 0.5, 0.25)] == [
        1,
        1,
        0,
    ]


def test_the_largest_and_smallest_uniform_stay_inside_the_vocabulary() -> None:
    uniforms = torch.tensor([[0.0], [1 - 2**-53]], dtype=torch.float64)
    picked = InverseCdfSampling(uniforms, 1.0)(torch.zeros(2, 1), torch.zeros(2, 5)).argmax(-1)
    assert picked.tolist() == [0, 4]


def test_same_seeds_same_responses_whatever_the_batch(tiny: Any) -> None:
    together = generate(tiny.policy, REQUESTS, SAMPLING)
    assert together == generate(tiny.policy, REQUESTS, SAMPLING)
    alone = [generate(tiny.policy, [request], SAMPLING)[0] for request in REQUESTS]
    assert [row.token_ids for row in alone] == [row.token_ids for row in together]
    assert len({tuple(row.token_ids) for row in together}) > 1


def test_other_seeds_other_responses(tiny: Any) -> None:
    others = [Request(request.prompt_ids, request.seed + 1) for request in REQUESTS]
    assert generate(tiny.policy, REQUESTS, SAMPLING) != generate(tiny.policy, others, SAMPLING)


def test_greedy_is_the_argmax_of_each_step(tiny: Any) -> None:
    from transformers import AutoModelForCausalLM

    found = generate(tiny.policy, REQUESTS[:1], SAMPLING._replace(temperature=0.0))[0].token_ids
    model = AutoModelForCausalLM.from_pretrained(tiny.policy)
    ids = list(REQUESTS[0].prompt_ids)
    for token in found:
        assert model(input_ids=torch.tensor([ids])).logits[0, -1].argmax().item() == token
        ids.append(token)


def test_a_response_ends_with_its_first_stop(tiny: Any) -> None:
    stop = tiny.tokenizer.eos_token_id
    ids = tiny.tokenizer("Thank you", add_special_tokens=False)["input_ids"]
    assert cut([*ids, stop, 9, 9], [stop], tiny.tokenizer) == Response([*ids, stop], "Thank you", True)
    assert cut(ids, [stop], tiny.tokenizer) == Response(ids, "Thank you", False)


def test_the_second_call_reads_the_cache_and_a_changed_model_does_not(
    tiny: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    import shutil

    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    folder = shutil.copytree(tiny.policy, tmp_path / "policy")
    first = cache.cached_generate(folder, REQUESTS, SAMPLING)
    assert len(list((tmp_path / "cache").glob("*.parquet"))) == 1
    assert cache.cached_generate(folder, REQUESTS, SAMPLING) == first
    assert len(list((tmp_path / "cache").glob("*.parquet"))) == 1
    shutil.copy(tiny.sft / "model.safetensors", folder / "model.safetensors")
    assert cache.cached_generate(folder, REQUESTS, SAMPLING) != first
    assert len(list((tmp_path / "cache").glob("*.parquet"))) == 2


def test_a_model_card_does_not_change_a_models_digest(tiny: Any, tmp_path: Any) -> None:
    import shutil

    folder = shutil.copytree(tiny.policy, tmp_path / "policy")
    (folder / "README.md").write_text("words")
    assert cache.model_digest(folder) == cache.model_digest(tiny.policy)


@pytest.mark.parametrize("other", [(8, "a", 0), (7, "b", 0), (7, "a", 1)])
def test_seeds_differ_by_run_prompt_and_sample(other: Any) -> None:
    assert 0 <= seed_of(7, "a", 0) < 2**63
    assert seed_of(7, "a", 0) != seed_of(*other)
