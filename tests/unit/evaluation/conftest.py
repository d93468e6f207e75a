"""Tiny models with random weights and a few rows of the synthetic task, made once for this folder's tests."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
}


def save_tiny(folder: Path, seed: int, tokenizer: Any, reward: bool = False, **sizes: int) -> Path:
    """A Qwen2 of random weights with its tokenizer; `reward` gives it a one-output head."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification

    torch.manual_seed(seed)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = Qwen2Config(
        vocab_size=len(tokenizer), bos_token_id=None, initializer_range=0.2, **{**SIZES, **sizes}, **ids
    )
    config.num_labels = 1 if reward else 2
    model = (Qwen2ForSequenceClassification if reward else Qwen2ForCausalLM)(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: Any) -> Any:
    """Folders `sft`, `policy` and `reward_model`, and the tokenizer they share."""
    from rlhf_pipeline.models.tokenizer import make_tokenizer

    root = tmp_path_factory.mktemp("tiny")
    tokenizer = make_tokenizer(400, 256)
    return SimpleNamespace(
        tokenizer=tokenizer,
        sft=save_tiny(root / "sft", 1, tokenizer),
        policy=save_tiny(root / "policy", 2, tokenizer),
        reward_model=save_tiny(root / "reward_model", 3, tokenizer, reward=True),
    )


@pytest.fixture(scope="session")
def data(tmp_path_factory: Any) -> Any:
    """The three tables of a small synthetic task, as validate_data would leave them."""
    from rlhf_pipeline.data.prepare import prepare
    from rlhf_pipeline.params import load

    out = tmp_path_factory.mktemp("validated")
    root = Path(__file__).parents[3]
    params = load(root / "params.yaml", {"data.synthetic.n_prompts": 150})
    prepare(params.data, params.seed, out / "raw", out)
    return out


@pytest.fixture(scope="session")
def params() -> Any:
    """The default experiment, cut down to a few prompts and resamples."""
    from rlhf_pipeline.params import load

    small = {"evaluate.n_prompts": 8, "evaluate.n_bootstrap": 200, "data.max_response_tokens": 12}
    return load(Path(__file__).parents[3] / "params.yaml", {"hardware.device": "cpu", **small})
