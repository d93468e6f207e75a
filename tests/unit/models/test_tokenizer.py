"""The tiny model's tokenizer: round trips, one policy for special tokens, messages that concatenate."""

from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError

from rlhf_pipeline.data.grammar import MEANINGS, corpus
from rlhf_pipeline.models.tokenizer import make_tokenizer
from rlhf_pipeline.rendering import scored_ids

ASK = {"role": "user", "content": "Hi, Anna here. My blue lamp is late."}
ANSWER = {"role": "assistant", "content": "Thank you for writing. That is all."}

OPENING = "That is all."


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return make_tokenizer(640, 512)


@pytest.mark.parametrize(
    "text", ["Größe 42 €", "日本\n\n\ttabs", " two  spaces ", "😀", "Have a lovely day!"]
)
def test_any_text_comes_back(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_every_word_of_the_task_is_one_token(tokenizer: Any) -> None:
    for sentence in MEANINGS:
        tokens = tokenizer(f"{OPENING} {sentence}")["input_ids"][len(tokenizer(OPENING)["input_ids"]) :]
        assert len(tokens) == len(sentence.split()) + sum(sentence.count(mark) for mark in ".,!?"), sentence


def test_special_tokens_follow_one_policy(tokenizer: Any) -> None:
    assert tokenizer.bos_token is None
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|end|>")
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_a_conversation_is_its_messages_one_after_the_other(tokenizer: Any) -> None:
    whole = tokenizer.apply_chat_template([ASK, ANSWER], tokenize=False)
    assert whole == (
        "<|user|>Hi, Anna here. My blue lamp is late.<|end|>"
        "<|assistant|>Thank you for writing. That is all.<|end|>"
    )
    ids = tokenizer.apply_chat_template([ASK, ANSWER], return_dict=False)
    parts = [tokenizer.apply_chat_template([message], return_dict=False) for message in (ASK, ANSWER)]
    assert ids == parts[0] + parts[1]
    assert ids[-1] == tokenizer.eos_token_id


def test_training_sampling_and_scoring_see_the_same_tokens(tokenizer: Any) -> None:
    conversation = tokenizer.apply_chat_template([ASK, ANSWER], return_dict=False)
    assert scored_ids(tokenizer, [ASK], ANSWER["content"]) == conversation


def test_an_unknown_role_is_refused(tokenizer: Any) -> None:
    with pytest.raises(TemplateError, match="unknown role: narrator"):
        tokenizer.apply_chat_template([{"role": "narrator", "content": "x"}], tokenize=False)


def test_a_saved_tokenizer_comes_back_as_it_was(tokenizer: Any, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, Qwen2Config

    Qwen2Config().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.get_vocab() == tokenizer.get_vocab()
    for text in (ASK["content"], ANSWER["content"], "x1y  22\n\nz", "<|user|><|pad|>"):
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]


def test_the_vocabulary_is_the_same_each_time_and_within_its_bound(tokenizer: Any) -> None:
    assert make_tokenizer(640, 512).get_vocab() == tokenizer.get_vocab()
    assert len(make_tokenizer(300, 512)) == 300
    assert corpus() == corpus()
