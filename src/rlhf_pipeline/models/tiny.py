"""Makes the default base model: a small Qwen2 with random weights and its own tokenizer.

It knows nothing until SFT; its size comes from `model.tiny`. Imported models are in `importing.py`.
"""

from __future__ import annotations

from pathlib import Path

from ..params.common import TinyModel
from .tokenizer import make_tokenizer


def write_tiny(folder: Path, size: TinyModel, seed: int) -> None:
    """Write config, float32 weights and tokenizer into `folder`; the same bytes for the same arguments."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    tokenizer = make_tokenizer(size.vocab_size, size.max_position_embeddings)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=size.hidden_size,
        intermediate_size=size.intermediate_size,
        num_hidden_layers=size.n_layers,
        num_attention_heads=size.n_heads,
        num_key_value_heads=size.n_kv_heads,
        max_position_embeddings=size.max_position_embeddings,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    torch.manual_seed(seed)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
