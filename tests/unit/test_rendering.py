"""Rendering with the tiny tokenizer: the same tokens as sampling produces, and clear refusals."""

from typing import Any

import pytest

from rlhf_pipeline.errors import DataError
from rlhf_pipeline.rendering import prompt_ids, render_prompt, response_ids, scored_ids

MESSAGES = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "My lamp is late."}]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from rlhf_pipeline.models.tokenizer import make_tokenizer

    return make_tokenizer(400, 256)


def test_a_prompt_ends_where_the_assistant_begins(tokenizer: Any) -> None:
    text = render_prompt(tokenizer, MESSAGES)
    assert text == "<|system|>Be kind.<|end|><|user|>My lamp is late.<|end|><|assistant|>"
    assert tokenizer.decode(prompt_ids(tokenizer, MESSAGES)) == text


def test_scored_ids_are_prompt_response_and_one_eos(tokenizer: Any) -> None:
    ids = scored_ids(tokenizer, MESSAGES, "Hello, dear customer.")
    assert ids == prompt_ids(tokenizer, MESSAGES) + response_ids(tokenizer, "Hello, dear customer.")
    assert ids[-1] == tokenizer.eos_token_id
    assert ids.count(tokenizer.eos_token_id) == 3


def test_a_cut_response_has_no_eos(tokenizer: Any) -> None:
    whole, cut = (response_ids(tokenizer, "Hello, dear", finished) for finished in (True, False))
    assert whole == [*cut, tokenizer.eos_token_id]
    assert tokenizer.eos_token_id not in cut


def test_arrow_rows_render_like_plain_messages(tokenizer: Any) -> None:
    with_more: Any = [{**message, "name": None} for message in MESSAGES]
    assert render_prompt(tokenizer, with_more) == render_prompt(tokenizer, MESSAGES)


def test_a_template_that_refuses_is_the_datas_fault(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="unknown role: narrator"):
        render_prompt(tokenizer, [{"role": "narrator", "content": "Once"}])


def test_a_tokenizer_without_template_is_named(tokenizer: Any) -> None:
    import copy

    bare = copy.deepcopy(tokenizer)
    bare.chat_template = None
    with pytest.raises(DataError, match="has no chat template"):
        render_prompt(bare, MESSAGES)
