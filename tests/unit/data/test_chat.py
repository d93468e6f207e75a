"""Chat templates without torch: rendering, special tokens, and agreement with transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest

from rlhf_pipeline.data.chat import ChatTokenizer
from rlhf_pipeline.errors import DataError

from .made import TEMPLATE, model

TALK = [
    {"role": "system", "content": "Be kind.\n"},
    {"role": "user", "content": "Why? \u00e9 <b>"},
    {"role": "assistant", "content": " Because. "},
]
SPACED = """
{% for m in messages %}
    {% if m.role == 'user' %}
U: {{ m.content | trim }}
    {% else %}
A: {{ m.content }}
{% endif %}
{% endfor %}"""
CONTROLLED = """{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif -%}
{% generation %}{{ m.content }}{% endgeneration %}{{ eos_token }}{% endfor %}"""
TEMPLATES = {
    "concatenation": TEMPLATE,
    "white space control": SPACED,
    "generation blocks and loop controls": CONTROLLED,
    "json": "{{ bos_token }}{% for m in messages %}{{ m | tojson }}{% endfor %}{{ messages | length }}",
    "date": "{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}{{ messages[0].role }}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("add_generation_prompt", [True, False])
def test_rendering_agrees_with_transformers(name: str, add_generation_prompt: bool, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = model(tmp_path, TEMPLATES[name], bos_token="<|user|>")
    theirs: Any = AutoTokenizer.from_pretrained(str(folder))
    expected = theirs.apply_chat_template(TALK, tokenize=False, add_generation_prompt=add_generation_prompt)
    assert ChatTokenizer(folder).render(TALK, add_generation_prompt) == expected


@pytest.mark.slow
def test_token_counts_agree_with_transformers(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = model(tmp_path)
    theirs: Any = AutoTokenizer.from_pretrained(str(folder))
    chat = ChatTokenizer(folder)
    [ours] = chat.encode([chat.render(TALK, True)])
    assert ours.ids == theirs.apply_chat_template(TALK, add_generation_prompt=True, return_dict=False)


def test_special_tokens_are_read_from_the_folder(tmp_path: Path) -> None:
    chat = ChatTokenizer(model(tmp_path, bos_token={"content": "<|user|>"}))
    assert (chat.bos, chat.eos, chat.pad) == ("<|user|>", "<|end|>", "<|pad|>")
    assert chat.special_tokens() == ["<|assistant|>", "<|end|>", "<|pad|>", "<|system|>", "<|user|>"]


@pytest.mark.parametrize(
    ("template", "bos", "expected", "leading"),
    [
        (TEMPLATE, None, 0, 0),
        ("{{ bos_token }}{{ messages[0].content }}", "<|user|>", 1, 1),
        ("{{ bos_token }}{{ bos_token }}{{ messages[0].content }}", "<|user|>", 1, 2),
        ("{{ messages[0].content }}", "<|user|>", 0, 0),
    ],
)
def test_how_many_bos_a_conversation_starts_with(
    template: str, bos: str | None, expected: int, leading: int, tmp_path: Path
) -> None:
    chat = ChatTokenizer(model(tmp_path, template, bos_token=bos))
    assert chat.expected_bos() == expected
    assert chat.leading_bos(chat.render([{"role": "user", "content": "Why?"}], True)) == leading


def test_a_template_may_refuse_a_conversation(tmp_path: Path) -> None:
    chat = ChatTokenizer(model(tmp_path, "{{ raise_exception('no system messages') }}"))
    with pytest.raises(jinja2.TemplateError, match="no system messages"):
        chat.render(TALK, True)


def test_a_template_cannot_reach_outside(tmp_path: Path) -> None:
    chat = ChatTokenizer(model(tmp_path, "{{ messages.__class__.__mro__ }}"))
    with pytest.raises(jinja2.exceptions.SecurityError):
        chat.render(TALK, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", None, r"tokenizer\.json is missing"),
        ("tokenizer_config.json", "{", r"tokenizer_config\.json is damaged"),
        ("tokenizer_config.json", "{}", "has no chat template"),
        ("chat_template.jinja", "{% for %}", "the chat template of .* is not valid"),
    ],
)
def test_a_damaged_folder_is_named(name: str, content: str | None, message: str, tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(DataError, match=message):
        ChatTokenizer(folder)
