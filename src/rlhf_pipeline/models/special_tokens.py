"""Holds every base model to one policy: a message ends with EOS, and padding is another token.

Works on a Hugging Face folder in place, through its tokenizer and its two config files. Whether the
model is any good, or fits the data, is not looked at here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..publish import write_json

PROBE = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "probe"}]
PAD_CANDIDATES = ("<|endoftext|>", "<|finetune_right_pad_id|>", "<pad>", "[PAD]", "<unk>")


def settle(folder: Path) -> list[str]:
    """Set EOS to the token with which the chat template closes a message, and PAD to another token.

    Returns one line per change, for the log.

    Raises:
        DataError: when the tokenizer has no chat template, or no token can play a role.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    changes = []
    closing = closing_token(tokenizer, folder)
    if tokenizer.eos_token != closing:
        changes.append(f"eos_token {tokenizer.eos_token} -> {closing}, which closes a message")
        tokenizer.eos_token = closing
    if tokenizer.pad_token in (None, closing):
        pad = next(
            (text for text in PAD_CANDIDATES if text != closing and text in tokenizer.get_vocab()), None
        )
        if pad is None:
            raise DataError(
                f"{folder}: the tokenizer has no padding token other than EOS ({closing}), and none of"
                f" {', '.join(PAD_CANDIDATES)} to take; set pad_token in its tokenizer_config.json"
            )
        changes.append(f"pad_token {tokenizer.pad_token} -> {pad}")
        tokenizer.pad_token = pad
    if changes:
        tokenizer.save_pretrained(folder)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    _set_keys(folder / "config.json", ids)
    if (folder / "generation_config.json").exists():
        _set_keys(folder / "generation_config.json", ids)
    return changes


def closing_token(tokenizer: Any, where: Path) -> str:
    """The special token that the chat template writes right after an assistant message."""
    if not tokenizer.chat_template:
        raise DataError(
            f"{where}: the tokenizer has no chat template, so prompts cannot be rendered; choose an instruct"
            " model or add chat_template.jinja to the folder (model.source, model.path)"
        )
    text = tokenizer.apply_chat_template(PROBE, tokenize=False)
    after = text[text.rindex(PROBE[-1]["content"]) + len(PROBE[-1]["content"]) :].strip()
    special = sorted(tokenizer.get_added_vocab(), key=len, reverse=True)
    found = next((token for token in special if after.startswith(token)), None)
    if found is None:
        raise DataError(
            f"{where}: the chat template does not close an assistant message with a special token (it writes"
            f" {after!r}), so generation would never stop; use a model whose template does"
        )
    return str(found)


def _set_keys(path: Path, values: dict[str, int]) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))
    if any(config.get(key) != value for key, value in values.items()):
        write_json(path, {**config, **values})
