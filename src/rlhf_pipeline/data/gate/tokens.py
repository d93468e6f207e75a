"""Token-level facts of every row by the real tokenizer, streamed into Parquet for the gate to judge.

One file per table; what is too long or wrong is decided by expectations/tokens.py. Memory holds one
record batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ... import paths
from ..chat import RENDER_ERRORS, ChatTokenizer
from .engine import DuckDBEngine
from .relations import quoted

BATCH_ROWS = 512
TOKENIZER = "tokenizer"
SCHEMA = pa.schema(
    [
        pa.field("home", pa.string()),
        pa.field("split", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("prompt_id", pa.string()),
        pa.field("template_error", pa.string()),
        pa.field("leading_bos", pa.int8()),
        pa.field("trains_eos", pa.bool_()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("conversation_tokens", pa.int32()),
        pa.field("chosen_tokens", pa.int32()),
        pa.field("rejected_tokens", pa.int32()),
        pa.field("equal_when_cut", pa.bool_()),
    ]
)
COLUMNS = {
    "preferences": ["prompt_id", "prompt", "chosen", "rejected"],
    "sft": ["prompt_id", "messages"],
    "prompts": ["extra_info", "prompt"],
}


def relation(table: str) -> str:
    """Name of the relation that holds a table's token facts."""
    return f"{table}_tokens"


def tokenizer_relation(chat: ChatTokenizer) -> str:
    """The SELECT of the tokenizer's one row: home, split, row (0), prompt_id (none), bos, eos, pad."""
    special = ", ".join(
        f"{'NULL' if one is None else quoted(one)}::VARCHAR" for one in (chat.bos, chat.eos, chat.pad)
    )
    values = f"('{TOKENIZER}', '', 0, '', {special})"
    return f"SELECT * FROM (VALUES {values}) AS tokenizer(home, split, row, prompt_id, bos, eos, pad)"


def measure(chat: ChatTokenizer, prepared: Path, table: str, response_tokens: int, out: Path) -> str:
    """Write the token facts of all rows of a table to `out`; returns the SELECT that reads them."""
    with pq.ParquetWriter(out, SCHEMA) as writer:
        for split in paths.SPLITS:
            start = 0
            with pq.ParquetFile(paths.table(prepared, table, split)) as file:
                for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=COLUMNS[table]):
                    facts = facts_of(chat, table, batch, response_tokens)
                    size = batch.num_rows
                    facts["home"], facts["split"] = [table] * size, [split] * size
                    facts["row"] = list(range(start, start + size))
                    writer.write_batch(pa.RecordBatch.from_pydict(facts, SCHEMA))
                    start += size
    return f"SELECT * FROM read_parquet({quoted(str(out))})"


def figures(engine: DuckDBEngine, table: str) -> dict[str, float]:
    """Median, 95th percentile and maximum of each token count of a table."""
    found: dict[str, float] = {}
    for column in ("prompt_tokens", "chosen_tokens", "rejected_tokens", "conversation_tokens"):
        sql = f'SELECT quantile_disc({column}, [0.5, 0.95, 1.0]) FROM "{relation(table)}"'
        quantiles = engine.row(sql)[0] or []
        for name, value in zip(("p50", "p95", "max"), quantiles, strict=False):
            found[f"{table}.{column}_{name}"] = value
    return found


def facts_of(
    chat: ChatTokenizer, table: str, batch: pa.RecordBatch, response_tokens: int
) -> dict[str, list[Any]]:
    """The token facts of one batch, by column of `SCHEMA`; home, split and row are left null."""
    columns = batch.to_pydict()
    size = batch.num_rows
    facts: dict[str, list[Any]] = {name: [None] * size for name in SCHEMA.names}
    facts["prompt_id"] = columns.get("prompt_id") or [one["prompt_id"] for one in columns["extra_info"]]
    conversations = columns["messages"] if table == "sft" else columns["prompt"]
    rendered = list(_rendered(chat, conversations, facts["template_error"], table != "sft"))
    facts["leading_bos"] = [chat.leading_bos(text) for text in rendered]
    lengths = [len(one) for one in chat.encode(rendered)]
    if table == "sft":
        facts["conversation_tokens"] = lengths
        facts["trains_eos"] = [_ends(chat, *pair) for pair in zip(rendered, conversations, strict=True)]
        return facts
    facts["prompt_tokens"] = lengths
    if table == "preferences":
        sides = [chat.encode([text or "" for text in columns[side]]) for side in ("chosen", "rejected")]
        # One more for the EOS that ends a response.
        facts["chosen_tokens"], facts["rejected_tokens"] = ([len(one) + 1 for one in side] for side in sides)
        kept = response_tokens - 1
        facts["equal_when_cut"] = [
            len(chosen) >= kept and len(rejected) >= kept and chosen.ids[:kept] == rejected.ids[:kept]
            for chosen, rejected in zip(*sides, strict=True)
        ]
    return facts


def _rendered(
    chat: ChatTokenizer, conversations: list[Any], errors: list[str | None], add_generation_prompt: bool
) -> Iterator[str]:
    for number, messages in enumerate(conversations):
        try:
            yield chat.render(messages or [], add_generation_prompt)
        except RENDER_ERRORS as error:
            errors[number] = f"{type(error).__name__}: {error}"
            yield ""


def _ends(chat: ChatTokenizer, rendered: str, messages: list[Any]) -> bool:
    """Whether EOS follows the last response in a rendered conversation."""
    last = (messages[-1]["content"] or "").strip() if messages else ""
    after = rendered.rfind(last) + len(last) if last else 0
    return chat.eos is not None and chat.eos in rendered[after:]
