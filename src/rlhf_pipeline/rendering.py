"""How messages become token ids, in the one way that SFT, reward model, PPO and evaluation share.

A prompt is the chat template with its generation prompt; a response is tokenised by itself and put
behind it, exactly as sampling appends tokens, and ends with EOS. Not here: the packing and loss
masks of the trainers. Imports nothing heavy; the tokenizer is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import DataError

Messages = Sequence[Mapping[str, str]]


def render_prompt(tokenizer: Any, messages: Messages) -> str:
    """The prompt's text, up to and including the words that open the assistant's turn.

    Raises:
        DataError: when the tokenizer has no chat template, or the template refuses the messages.
    """
    from jinja2 import TemplateError

    if not tokenizer.chat_template:
        raise DataError(
            f"the tokenizer of {tokenizer.name_or_path} has no chat template, so prompts cannot be rendered;"
            " add chat_template.jinja to the base model's folder"
        )
    plain = [{"role": message["role"], "content": message["content"]} for message in messages]
    try:
        return str(tokenizer.apply_chat_template(plain, add_generation_prompt=True, tokenize=False))
    except TemplateError as error:
        raise DataError(f"the chat template refuses this prompt: {error}; prompt: {plain}") from None


def prompt_ids(tokenizer: Any, messages: Messages) -> list[int]:
    """Token ids of `render_prompt`; the template writes its own special tokens, none are added."""
    return list(tokenizer(render_prompt(tokenizer, messages), add_special_tokens=False)["input_ids"])


def response_ids(tokenizer: Any, response: str, finished: bool = True) -> list[int]:
    """Token ids of a response; EOS closes it unless it was cut off at the token budget."""
    ids = list(tokenizer(response, add_special_tokens=False)["input_ids"])
    return [*ids, tokenizer.eos_token_id] if finished else ids


def scored_ids(tokenizer: Any, messages: Messages, response: str, finished: bool = True) -> list[int]:
    """What the reward model reads: prompt, response, EOS. Its score stands at the last of these tokens."""
    return prompt_ids(tokenizer, messages) + response_ids(tokenizer, response, finished)
