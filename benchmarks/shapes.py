"""Makes a workspace for timing PPO: random weights of a chosen shape, random prompts of a chosen length.

    python -m benchmarks.shapes FOLDER --shape 0.5b --params presets/smollm2-135m.yaml -S ppo.total_epochs=1

The folder then holds what the stage ppo reads (models/sft, models/reward_model, data/validated) and a
params.yaml; `python -m benchmarks.ppo --workspace FOLDER` and `benchmarks.ablation` time it. Nothing is
learnt from random weights: only time and memory mean something, and every response runs to its limit.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rlhf_pipeline import paths
from rlhf_pipeline.params_edit import change_params
from rlhf_pipeline.publish import publishing

# hidden, intermediate, layers, heads, key-value heads, vocabulary: the published Qwen2.5 configurations,
# and two small ones (SmolLM2-135M's body; the demo's).
SHAPES = {
    "tiny": (128, 256, 2, 4, 2, 1024),
    "0.1b": (576, 1536, 30, 9, 3, 49152),
    "0.5b": (896, 4864, 24, 14, 2, 151936),
    "1.5b": (1536, 8960, 28, 12, 2, 151936),
    "3b": (2048, 11008, 36, 16, 2, 151936),
}
PROMPT_TOKENS, RESPONSE_TOKENS = 107, 256
SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="0.5b")
    parser.add_argument("--params", type=Path, default=paths.PARAMS, help="the params to start from")
    parser.add_argument("-S", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--prompts", type=int, default=4096)
    parser.add_argument("--prompt-tokens", type=int, default=PROMPT_TOKENS)
    parser.add_argument("--response-tokens", type=int, default=RESPONSE_TOKENS)
    arguments = parser.parse_args()
    settings = {
        "data.max_prompt_tokens": arguments.prompt_tokens + 21,
        "data.max_response_tokens": arguments.response_tokens,
        "ppo.validation.score": "reward",
        "ppo.validation.n_prompts": 32,
        "rollback.enabled": False,
    }
    settings |= {
        key: YAML(typ="safe").load(value) for key, _, value in (s.partition("=") for s in arguments.settings)
    }
    change_params(arguments.params, settings, arguments.folder / paths.PARAMS)
    tokenizer = write_models(
        arguments.folder, arguments.shape, arguments.prompt_tokens + arguments.response_tokens + 21
    )
    for split, rows in (("train", arguments.prompts), ("validation", 32)):
        write_prompts(arguments.folder, tokenizer, split, rows, arguments.prompt_tokens)


def write_models(folder: Path, shape: str, positions: int) -> Any:
    """A policy and a reward model with random bfloat16 weights and the demo's tokenizer; returns that."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2ForSequenceClassification

    from rlhf_pipeline.models.tokenizer import make_tokenizer

    hidden, intermediate, layers, heads, kv_heads, vocabulary = SHAPES[shape]
    tokenizer = make_tokenizer(640, 4 * positions)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=4 * positions,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        num_labels=1,
        dtype="bfloat16",
    )
    for kind, place in (
        (Qwen2ForCausalLM, paths.SFT_MODEL),
        (Qwen2ForSequenceClassification, paths.REWARD_MODEL),
    ):
        torch.manual_seed(SEED)
        kind(config).to(torch.bfloat16).save_pretrained(folder / place)
        tokenizer.save_pretrained(folder / place)
    tokenizer.save_pretrained(folder / paths.BASE_MODEL)
    with publishing(folder / paths.JUDGE, {"source": "none"}):
        pass
    return tokenizer


def write_prompts(folder: Path, tokenizer: Any, split: str, rows: int, prompt_tokens: int) -> None:
    """One table of prompts as the data gate writes it, each of `prompt_tokens` tokens or a few less."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = random.Random(f"{SEED} {split}")
    words = [word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha()]
    table = []
    for index in range(rows):
        text = prompt_of(tokenizer, words, generator, prompt_tokens)
        table.append(
            {
                "data_source": "random",
                "prompt": [{"role": "user", "content": text}],
                "ability": "none",
                "reward_model": {"style": "model", "ground_truth": ""},
                "extra_info": {"prompt_id": f"{split}-{index}", "split": split, "index": index},
            }
        )
    file = folder / paths.table(paths.VALIDATED, "prompts", split)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(table), file)


def prompt_of(tokenizer: Any, words: list[str], generator: random.Random, prompt_tokens: int) -> str:
    """Random words whose rendered prompt has at most `prompt_tokens` tokens."""
    chosen: list[str] = []
    while True:
        more = [*chosen, generator.choice(words)]
        messages = [{"role": "user", "content": " ".join(more)}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        if len(ids) > prompt_tokens:
            return " ".join(chosen)
        chosen = more


if __name__ == "__main__":
    main()
