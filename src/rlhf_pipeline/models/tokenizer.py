"""The tiny model's tokenizer: byte-level BPE over the synthetic task's own words, with a chat template.

Any text can be encoded (bytes are the fallback). One policy for special tokens: no BOS, a message
ends with `<|end|>`, which is EOS; `<|pad|>` is padding and nothing else. Imported models keep their
own tokenizer.
"""

from __future__ import annotations

import json
from typing import Any

from ..data.grammar import corpus

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant", "tool")
# Each message renders by itself and ends with EOS, so that a conversation is the concatenation of its
# messages: verl's SFT dataset, its reward loop and TRL then all see the same tokens.
CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] not in ['system', 'user', 'assistant', 'tool'] -%}"
    "{{- raise_exception('unknown role: ' + message['role']) -}}"
    "{%- endif -%}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


def make_tokenizer(vocab_size: int, max_length: int) -> Any:
    """A `Qwen2Tokenizer` of at most `vocab_size` entries, the same on every machine.

    It is of the class that transformers takes for every Qwen2 folder, whatever the folder says: another
    one would split words differently after loading, and gain a token that the model has no row for.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX, Qwen2Tokenizer

    bpe = Tokenizer(models.BPE())
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRETOKENIZE_REGEX), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    roles = [f"<|{role}|>" for role in ROLES]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, END, *roles],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(corpus(), trainer)
    learned = json.loads(bpe.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=learned["vocab"],
        merges=[tuple(merge) for merge in learned["merges"]],
        pad_token=PAD,
        eos_token=END,
        unk_token=PAD,  # never produced: bytes cover everything
        extra_special_tokens=roles,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer
