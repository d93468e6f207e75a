"""Small prepared tables and a small tokenizer for the data tests, written as the stages write them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlhf_pipeline import paths, records
from rlhf_pipeline.params.load import parse, read_yaml
from rlhf_pipeline.params.root import Params

REPOSITORY = Path(__file__).resolve().parents[3]
REAL_DATA = Path(os.environ.get("RLHF_REAL_DATA", REPOSITORY.parent / "shared" / "data"))
"""Where the public sets of docs/data.md lie, if they are at hand."""
SPECIAL = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
TEMPLATE = (
    "{%- for message in messages -%}{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' -}}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
Row = dict[str, Any]


def params(**overrides: Any) -> Params:
    """The repository's params with dotted overrides (`__` for the dot) and few rows asked for."""
    dotted = {name.replace("__", "."): value for name, value in overrides.items()}
    return parse(values(), {"validate_data.min_rows": 1, **dotted})


@cache
def values() -> dict[str, Any]:
    """params.yaml as it stands."""
    return read_yaml(REPOSITORY / "params.yaml")


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def preference(prompt: str = "Why?", chosen: str = "Because.", rejected: str = "No.", **changed: Any) -> Row:
    row = {"prompt_id": records.prompt_id(user(prompt)), "prompt": user(prompt), "chosen": chosen}
    return {**row, "rejected": rejected, "source": "made", "margin": None, **changed}


def demonstration(prompt: str = "Why?", response: str = "Because.", **changed: Any) -> Row:
    messages = [*user(prompt), {"role": "assistant", "content": response}]
    return {"prompt_id": records.prompt_id(user(prompt)), "messages": messages, "source": "made", **changed}


def prompt(text: str = "Why?", **changed: Any) -> Row:
    row = {"data_source": "made", "prompt": user(text), "ability": "general"}
    rule = {"style": "model", "ground_truth": ""}
    extra = {"prompt_id": records.prompt_id(user(text)), "split": "train", "index": 0}
    return {**row, "reward_model": rule, "extra_info": extra, **changed}


def prepared(folder: Path, rows: dict[tuple[str, str], list[Row]], **schemas: pa.Schema) -> Path:
    """Write the nine files; those not named in `rows` hold one ordinary row of their own."""
    for table in paths.TABLES:
        for split in paths.SPLITS:
            path = paths.table(folder, table, split)
            path.parent.mkdir(parents=True, exist_ok=True)
            here = rows.get((table, split), [_ordinary(table, split)])
            pq.write_table(pa.Table.from_pylist(here, schemas.get(table, records.SCHEMAS[table])), path)
    return folder


def _ordinary(table: str, split: str) -> Row:
    text = f"for {split}"
    if table == "preferences":
        return preference(text)
    return demonstration(text) if table == "sft" else prompt(text)


def model(folder: Path, template: str = TEMPLATE, **config: Any) -> Path:
    """A model folder with a word-level tokenizer whose tokens can be counted by eye."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    from rlhf_pipeline import publish

    words = [
        "Why",
        "?",
        "Because",
        ".",
        "No",
        "An",
        "ordinary",
        "question",
        "for",
        "train",
        "validation",
        "test",
        "one",
        "two",
        "three",
        "four",
        "five",
    ]
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, "[unk]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(SPECIAL)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    publish.write_json(
        folder / "tokenizer_config.json",
        {"eos_token": "<|end|>", "pad_token": "<|pad|>", "chat_template": template} | config,
    )
    return folder
