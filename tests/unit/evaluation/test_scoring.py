"""Scores and log-probabilities of padded batches against one row at a time through the plain model."""

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from rlhf_pipeline.errors import DataError
from rlhf_pipeline.evaluation.judges import Judge
from rlhf_pipeline.evaluation.models import batches, load_policy, load_reward_model, load_tokenizer, pad
from rlhf_pipeline.evaluation.sampling import Response
from rlhf_pipeline.evaluation.scoring import sequence_scores, token_logprobs

CPU, F32 = torch.device("cpu"), torch.float32
ROWS = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14, 15, 16, 17, 18]]


def test_batch_scores_equal_single_ones_even_when_padding_is_a_real_token(tiny: Any) -> None:
    model = load_reward_model(tiny.reward_model, CPU, F32)
    alone = [sequence_scores(model, [row], 0)[0] for row in ROWS]
    np.testing.assert_allclose(sequence_scores(model, ROWS, 0), alone, atol=1e-5)
    # Filling with a token that ends a row must not move where its score is read.
    np.testing.assert_allclose(sequence_scores(model, ROWS, ROWS[1][-1]), alone, atol=1e-5)


def test_score_is_what_transformers_says_of_an_unpadded_row(tiny: Any) -> None:
    model = load_reward_model(tiny.reward_model, CPU, F32)
    expected = model(input_ids=torch.tensor([ROWS[0]])).logits[0, 0].item()
    assert sequence_scores(model, [ROWS[0]], 0)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_token_logprobs_equal_one_row_at_a_time(tiny: Any, temperature: Any) -> None:
    policy, ref = load_policy(tiny.policy, CPU, F32), load_policy(tiny.sft, CPU, F32)
    prompts, responses = [[5, 6, 7], [8]], [[9, 10], [11, 12, 13, 14]]
    found = token_logprobs(policy, ref, prompts, responses, 0, temperature)
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        for values, model in ((found.policy, policy), (found.ref, ref)):
            logits = model(input_ids=torch.tensor([prompt + response])).logits[0] / temperature
            expected = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
            expected = expected.gather(-1, torch.tensor(response)[:, None])[:, 0]
            np.testing.assert_allclose(values[row], expected, atol=1e-4)


def test_exact_kl_is_never_negative_and_zero_against_itself(tiny: Any) -> None:
    policy, ref = load_policy(tiny.policy, CPU, F32), load_policy(tiny.sft, CPU, F32)
    differs = token_logprobs(policy, ref, [[5, 6]], [[7, 8, 9]], 0, 1.0)
    assert (differs.exact_kl[0] > 0).all()
    same = token_logprobs(policy, policy, [[5, 6]], [[7, 8, 9]], 0, 1.0)
    np.testing.assert_allclose(same.exact_kl[0], 0, atol=1e-6)


def test_a_policy_is_refused_as_reward_model(tiny: Any) -> None:
    with pytest.raises(DataError, match="reward model"):
        load_reward_model(tiny.sft, CPU, F32)


def test_a_folder_without_model_is_named(tmp_path: Any) -> None:
    with pytest.raises(DataError, match=str(tmp_path)):
        load_policy(tmp_path, CPU, F32)


def test_judge_reads_sampled_tokens_or_renders_them_again(tiny: Any) -> None:
    judge, tokenizer = Judge(tiny.reward_model, CPU, F32), load_tokenizer(tiny.policy)
    row = {"prompt": [{"role": "user", "content": "Hello"}]}
    ids = tokenizer("Good day.", add_special_tokens=False)["input_ids"]
    finished = Response([*ids, tokenizer.eos_token_id], "Good day.", True)
    direct = judge.score_samples([row], [finished], tokenizer)
    through_text, lengths = judge.score_texts([row["prompt"]], ["Good day."])
    assert direct[0] == pytest.approx(through_text[0], abs=1e-6)
    assert lengths == [len(ids)]
    cut = judge.score_samples([row], [Response(ids, "Good day.", False)], tokenizer)
    assert cut[0] != pytest.approx(direct[0], abs=1e-6)


def test_equal_responses_score_equal_to_the_last_bit_whatever_is_scored_beside_them(tiny: Any) -> None:
    judge = Judge(tiny.reward_model, CPU, F32)
    prompt = [{"role": "user", "content": "Hello"}]
    first, _ = judge.score_texts([prompt] * 2, ["Good day.", "Good day."])
    others = ["Good day, dear customer, and thank you for everything.", "No.", "Good day.", "Yes, of course."]
    later, _ = judge.score_texts([prompt] * 4, others)
    assert first[0] == first[1] == later[2]
    assert len(set(later.tolist())) == 4


def test_a_score_in_process_depends_on_its_tokens_alone(tiny: Any) -> None:
    from rlhf_pipeline.ppo.local_reward import LocalRewardModel

    local = LocalRewardModel(str(tiny.reward_model))
    rows = [[5 + (7 * row + column) % 60 for column in range(4 + 3 * row)] for row in range(12)]
    alone = [local.score_now(row) for row in rows]
    expected = sequence_scores(load_reward_model(tiny.reward_model, CPU, F32), rows, 0)
    np.testing.assert_allclose(alone, expected, atol=1e-5)

    async def together() -> list[float]:
        return list(await asyncio.gather(*(local.score(row) for row in reversed(rows))))

    assert asyncio.run(together())[::-1] == alone


def test_batches_hold_every_row_once_longest_first() -> None:
    found = list(batches([3, 9, 9, 1], rows=3))
    assert found == [[1, 2, 0], [3]]


def test_pad_left_and_right() -> None:
    ids, mask = pad([[1, 2], [3]], 7, CPU, left=True)
    assert ids.tolist() == [[1, 2], [7, 3]]
    assert mask.tolist() == [[1, 1], [0, 1]]
    assert pad([[1, 2], [3]], 7, CPU)[0].tolist() == [[1, 2], [3, 7]]
