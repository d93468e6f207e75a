"""Writes the three tables: every source's items, split by the hash of their prompt, each prompt once.

No prompt is ever in two splits, in any table. Rows are streamed into Parquet; nothing is judged here
(that is validate_data's job), and what a source could not convert is counted and kept for the report.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .. import paths, records
from ..errors import DataError
from ..params.common import Data, Source
from .items import Demonstration, Item, Message, Preference, Prompt
from .source import RowItems, SetAside, SourceCounts, read_source
from .tables import BENCHMARKS, TableWriters

SET_ASIDE = "set_aside.parquet"
BENCHMARK_SCHEMA = pa.schema([("benchmark", pa.string()), ("text", pa.string())])
SET_ASIDE_SCHEMA = pa.schema(
    [
        (field.name, pa.int64() if field.name == "row" else pa.string())
        for field in dataclasses.fields(SetAside)
    ]
)


def prepare(data: Data, seed: int, raw: Path, out: Path) -> dict[str, Any]:
    """Fill `out` with <table>/<split>.parquet and set_aside.parquet; returns the counts per source.

    Raises:
        DataError: for any source that cannot be read, or when no source gives a row to train on.
    """
    raw = raw.parent if raw.is_file() else raw
    facts: dict[str, Any] = {}
    set_aside: list[dict[str, Any]] = []
    with TableWriters(out) as writers:
        sorter = _Sorter(data, writers)
        for source in data.sources:
            counts = SourceCounts()
            before, repeated = writers.rows(), sorter.repeated
            for row in _rows_of(source, data, seed, raw, counts):
                sorter.add(row, source)
            facts[source.name] = _facts(counts, before, writers.rows())
            facts[source.name]["repeated"] = sorter.repeated - repeated
            set_aside += [dataclasses.asdict(one) for one in counts.set_aside]
        if not any(writers.rows().values()):
            raise DataError("data.sources: no source gave a single row")
    pq.write_table(pa.Table.from_pylist(set_aside, SET_ASIDE_SCHEMA), out / SET_ASIDE)
    benchmarks = pa.Table.from_pylist(list(_benchmarks(data, raw)), BENCHMARK_SCHEMA)
    pq.write_table(benchmarks, out / BENCHMARKS)
    return facts


def _rows_of(source: Source, data: Data, seed: int, raw: Path, counts: SourceCounts) -> Iterable[RowItems]:
    if source.kind == "synthetic":
        return _synthetic(data, seed, counts)
    return read_source(source, raw, counts)


def _synthetic(data: Data, seed: int, counts: SourceCounts) -> Iterator[RowItems]:
    from . import synthetic

    made = synthetic.make(**data.synthetic.model_dump(), seed=seed)
    counts.shape = "synthetic"
    for one in made["preferences"]:
        yield RowItems([Preference(one["prompt"], one["chosen"], one["rejected"])], 1)
    for one in made["sft"]:
        yield RowItems([Demonstration(one["messages"])], 1)
    for one in made["prompts"]:
        yield RowItems([Prompt(one["prompt"], one["ground_truth"], "rule", one["ability"])], 1)
    counts.rows = sum(len(rows) for rows in made.values())


def _benchmarks(data: Data, raw: Path) -> Iterator[dict[str, str]]:
    """The prompts of the files in data.benchmarks, each once."""
    for path in data.benchmarks:
        source = Source(kind="auto", path=path, name=path, weight=1.0, limit=None, mapping=None, options=None)
        for row in read_source(source, raw, SourceCounts()):
            texts = {_asked(item) for item in row.items}
            yield from ({"benchmark": path, "text": text} for text in sorted(texts) if text.strip())


def _asked(item: Item) -> str:
    prompt = _answered(item.messages) if isinstance(item, Demonstration) else item.prompt
    return "\n".join(message["content"] for message in prompt)


def _answered(messages: list[Message]) -> list[Message]:
    """What a demonstration answers: up to the user's last message; tool calls make no new prompt."""
    turns = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return messages[: turns[-1] + 1] if turns else messages[:-1]


def _facts(counts: SourceCounts, before: dict[str, int], after: dict[str, int]) -> dict[str, Any]:
    return {
        "shape": counts.shape,
        "files": counts.files,
        "raw_rows": counts.rows,
        "undecided": counts.undecided,
        "sampled_out": counts.sampled_out,
        "set_aside": len(counts.set_aside),
        **{f"{table}_rows": after[table] - before[table] for table in paths.TABLES},
    }


class _Sorter:
    """Gives items their prompt id and split and leaves out what a table already holds."""

    def __init__(self, data: Data, writers: TableWriters) -> None:
        self._data, self._writers = data, writers
        self.repeated = 0
        """Demonstrations and prompts left out because their table already has them."""
        self._last: tuple[list[Message], tuple[str, str]] = [], ("", "")
        self._prompts: set[int] = set()
        self._demonstrations: set[int] = set()

    def add(self, row: RowItems, source: Source) -> None:
        tables = _tables(source)
        for item in row.items:
            self._add(item, row.repeats, source.name, tables)

    def _add(self, item: Item, repeats: int, source: str, tables: frozenset[str]) -> None:
        prompt = self._with_system(item.messages if isinstance(item, Demonstration) else item.prompt)
        answered = _answered(prompt) if isinstance(item, Demonstration) else prompt
        identifier, split = self._place(answered)
        times = repeats if split == "train" else 1
        values: dict[str, Any]
        if isinstance(item, Preference) and "preferences" in tables:
            values = {
                "prompt_id": identifier, "prompt": prompt, "chosen": item.chosen,
                "rejected": item.rejected, "source": source, "margin": item.margin,
            }  # fmt: skip
            self._write("preferences", split, values, times)
        elif isinstance(item, Demonstration) and "sft" in tables:
            if self._is_new(self._demonstrations, identifier, item.messages[-1]["content"]):
                values = {"prompt_id": identifier, "messages": prompt, "source": source}
                self._write("sft", split, values, times)
        elif isinstance(item, Prompt) and "prompts" in tables and self._is_new(self._prompts, identifier):
            values = {
                "data_source": source, "prompt": prompt, "ability": item.ability,
                "reward_model": {"style": item.style, "ground_truth": item.ground_truth},
                "extra_info": {"prompt_id": identifier, "split": split, "index": len(self._prompts) - 1},
            }  # fmt: skip
            self._write("prompts", split, values, times)

    def _place(self, prompt: list[Message]) -> tuple[str, str]:
        """The id and split of a prompt; the items of one row share theirs, so the last is remembered."""
        if prompt != self._last[0]:
            identifier = records.prompt_id(prompt)
            split = records.split_of(identifier, self._data.validation_fraction, self._data.test_fraction)
            self._last = prompt, (identifier, split)
        return self._last[1]

    def _is_new(self, seen: set[int], *parts: str) -> bool:
        """Whether the parts were not seen before; keeps 8 bytes of their hash."""
        key = int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")
        if key in seen:
            self.repeated += 1
            return False
        seen.add(key)
        return True

    def _with_system(self, messages: list[Message]) -> list[Message]:
        system = self._data.system_prompt
        if system is None or messages[0]["role"] == "system":
            return messages
        return [{"role": "system", "content": system}, *messages]

    def _write(self, table: str, split: str, values: dict[str, Any], times: int) -> None:
        for _ in range(times):
            self._writers.add(table, split, values)


def _tables(source: Source) -> frozenset[str]:
    wanted = (source.options or {}).get("tables")
    if wanted is None:
        return frozenset(paths.TABLES)
    if not isinstance(wanted, list) or not wanted or not set(wanted) <= set(paths.TABLES):
        raise DataError(
            f"data.sources ({source.name}).options.tables: a list out of {', '.join(paths.TABLES)},"
            f" got {wanted!r}"
        )
    return frozenset(wanted)
