"""How fast the data gate is, and how much memory it takes: `python -m benchmarks.data [rows ...]`.

For each size, preference pairs of about 1 kB are made and measured, every measurement in a process of
its own: a bare pyarrow scan with lengths, the basic suites beside it, and the slower ones. Prints a
table, writes benchmarks/results/data.json and the table in docs/data.md. Made text only; nothing here
judges real data.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from tokenizers import Encoding

from rlhf_pipeline import paths, records
from rlhf_pipeline.data.chat import ChatTokenizer
from rlhf_pipeline.models.tokenizer import make_tokenizer

SIZES = (100_000, 1_000_000, 10_000_000)
TOKENS_MOST_ROWS = 100_000
"""The largest size at which tokens are counted: minutes per million rows, at a speed that stays."""
RESULTS = Path("benchmarks/results/data.json")
DOCS = Path("docs/data.md")
MARKS = "<!-- benchmark -->\n", "<!-- end of benchmark -->\n"
TURNS = 3
BATCH_ROWS = 50_000
TOKENIZER = "tokenizer"
TEXT_COLUMNS = ["prompt", "chosen", "rejected"]


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="rlhf-bench-", dir=os.environ.get("TMPDIR")) as folder:
        for size in [int(argument) for argument in arguments] or SIZES:
            prepared = Path(folder) / str(size)
            make_prepared(prepared, size)
            make_tokenizer(2048, 4096).save_pretrained(str(prepared / TOKENIZER))
            measured = _measured(prepared, size)
            rows = [_row(name, size, measured) for name in measured]
            print("\n".join(map(_line, rows)), flush=True)
            _keep(size, rows)
            shutil.rmtree(prepared)
    print(f"written to {RESULTS}")
    return 0


def _keep(size: int, rows: list[dict[str, Any]]) -> None:
    """Write the results of one size; those of other sizes stay."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(RESULTS.read_text())["rows"] if RESULTS.is_file() else []
    rows = sorted([*rows, *(row for row in kept if row["rows"] != size)], key=lambda row: row["rows"])
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    RESULTS.write_text(json.dumps({"machine": machine, "rows": rows}, indent=2) + "\n", encoding="utf-8")
    before, _, rest = DOCS.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    DOCS.write_text(before + MARKS[0] + _table(rows) + MARKS[1] + after, encoding="utf-8")


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["| rows | checks | rows/s | ratio | peak memory |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {row['rows']:,} | {row['measure']} | {row['rows_per_s']:,} | {row['ratio']:.2f}"
        f" | {row['peak_mb']:,} MB |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _measured(prepared: Path, size: int) -> dict[str, dict[str, float]]:
    """Every measure; scan and basic in turns, the best time and the largest peak of each."""
    found: dict[str, dict[str, float]] = {}
    for name in ["scan", "basic"] * TURNS:
        one = _in_child(name, prepared, size)
        best = found.setdefault(name, one)
        best["seconds"] = min(best["seconds"], one["seconds"])
        best["peak_mb"] = max(best["peak_mb"], one["peak_mb"])
    others = [name for name in MEASURES if name not in found and _is_wanted(name, size)]
    return found | {name: _in_child(name, prepared, size) for name in others}


def _is_wanted(name: str, size: int) -> bool:
    return name != "tokens" or size <= TOKENS_MOST_ROWS


def _row(name: str, size: int, measured: dict[str, dict[str, float]]) -> dict[str, Any]:
    one = measured[name]
    yardstick = one.get("raw_encode_seconds", measured["scan"]["seconds"])
    return {
        "rows": size,
        "measure": name,
        "rows_per_s": round(size / one["seconds"]),
        "ratio": round(yardstick / one["seconds"], 2),
        "yardstick": "raw encode" if "raw_encode_seconds" in one else "bare scan",
        "peak_mb": round(one["peak_mb"]),
    }


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['rows']:>12,} rows  {row['measure']:<16} {row['rows_per_s']:>12,} rows/s"
        f"  {row['ratio']:>6} of {row['yardstick']:<10} {row['peak_mb']:>6,} MB peak"
    )


def _in_child(name: str, prepared: Path, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.data", "--measure", name, str(prepared), str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def make_prepared(folder: Path, n_rows: int) -> None:
    """Write prepared tables whose preferences hold `n_rows` pairs of about 1 kB, all splits together."""
    rng = np.random.default_rng(0)
    words = np.array([f"{a}{b}" for a in ("ba", "ce", "di", "fo", "gu", "la", "me", "ni") for b in "nrstlm"])
    pool = pa.array(
        [" ".join(words[rng.integers(0, len(words), 14)]).capitalize() + ". " for _ in range(20_000)]
    )

    def text(first: int, rows: int, sentences: int) -> pa.Array:
        parts = [pc.take(pool, pa.array(rng.integers(0, len(pool), rows))) for _ in range(sentences)]
        return pc.binary_join_element_wise(
            *parts, pc.cast(pa.array(np.arange(first, first + rows)), pa.string()), ""
        )

    sizes = {"train": n_rows - 2_000, "validation": 1_000, "test": 1_000}
    first = 0
    for table in paths.TABLES:
        for split in paths.SPLITS:
            path = paths.table(folder, table, split)
            path.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(path, records.SCHEMAS[table], compression="zstd") as writer:
                left = sizes[split] if table == "preferences" else 0
                while left:
                    rows = min(left, BATCH_ROWS)
                    writer.write_table(_pairs(first, rows, text))
                    first, left = first + rows, left - rows


def _pairs(first: int, rows: int, text: Callable[[int, int, int], pa.Array]) -> pa.Table:
    identifiers = pc.utf8_lpad(pc.cast(pa.array(np.arange(first, first + rows)), pa.string()), 16, "0")
    user = pa.StructArray.from_arrays([pa.array(["user"] * rows), text(first, rows, 2)], ["role", "content"])
    prompt = pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32)), user)
    columns = [
        identifiers, prompt, text(first, rows, 6), text(first, rows, 6),
        pa.array(["bench"] * rows), pa.nulls(rows, pa.float64()),
    ]  # fmt: skip
    return pa.table(columns, schema=records.PREFERENCES)


def _batches(prepared: Path) -> Iterable[pa.RecordBatch]:
    return ds.dataset(prepared / "preferences").scanner(columns=TEXT_COLUMNS).to_batches()


def scan(prepared: Path, scratch: Path) -> dict[str, float]:
    """The yardstick: read the texts and sum their lengths."""
    start = time.perf_counter()
    total = 0
    for batch in _batches(prepared):
        prompt = pc.list_flatten(batch["prompt"]).field("content")
        total += sum(
            pc.sum(pc.binary_length(column)).as_py()
            for column in (prompt, batch["chosen"], batch["rejected"])
        )
    return {"seconds": time.perf_counter() - start, "text_bytes": total}


class Doubled(ChatTokenizer):
    """Encodes everything once more, raw and timed, so that both meet the same texts and the same machine."""

    raw_seconds = 0.0
    _calls = 0

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        # In turns first and second: whoever comes second finds the words in the tokenizer's cache.
        self._calls += 1
        if self._calls % 2:
            self._encode_raw(list(texts))
            return super().encode(texts)
        found = super().encode(texts)
        self._encode_raw(list(texts))
        return found

    def _encode_raw(self, texts: list[str]) -> None:
        start = time.perf_counter()
        self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        self.raw_seconds += time.perf_counter() - start


def suite(*names: str) -> Callable[[Path, Path], dict[str, float]]:
    """A measurement of suites of the gate over the preferences, the facts they need included."""

    def measure(prepared: Path, scratch: Path) -> dict[str, float]:
        from rlhf_pipeline.data.gate import facts, files, relations, run, suites
        from rlhf_pipeline.data.validate import MEMORY_GIB
        from rlhf_pipeline.params.load import load

        section = load().validate_data.model_copy(update={"tables": ["preferences"]})
        budgets, chat = suites.Budgets(512, 512), Doubled(prepared / TOKENIZER)
        found = suites.schema_suite(section) | suites.suites(section, budgets, chat, False)
        wanted = {name: found[name] for name in names}
        views = {files.NAME: files.relation(prepared)} | relations.relations(prepared)
        gate = run.Gate(views, scratch, MEMORY_GIB)
        start = time.perf_counter()
        tables = {one.table for expectations in wanted.values() for one in expectations}
        facts.make(gate.engine, tables, prepared, section, budgets, chat, scratch)
        outcome = gate.run(wanted)
        seconds = time.perf_counter() - start - chat.raw_seconds
        if any(one.exception for one in outcome.findings):
            raise SystemExit("\n".join(str(one.exception) for one in outcome.findings))
        raw = {"raw_encode_seconds": chat.raw_seconds} if chat.raw_seconds else {}
        return {"seconds": seconds} | raw

    return measure


MEASURES: dict[str, Callable[[Path, Path], dict[str, float]]] = {
    "scan": scan,
    "basic": suite("files", "preferences"),
    "text": suite("text"),
    "splits": suite("splits"),
    "personal data": suite("personal data"),
    "scripts": suite("scripts"),
    "near duplicates": suite("near duplicates"),
    "tokens": suite("tokens"),
}


def _peak_mb() -> float:
    """The largest resident size of this process alone; getrusage would count its parent's before exec."""
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1e3


def measured_here(name: str, prepared: Path) -> None:
    """Run one measurement in this process and print it as JSON."""
    with tempfile.TemporaryDirectory(prefix="rlhf-bench-scratch-") as scratch:
        found = MEASURES[name](prepared, Path(scratch))
    found["peak_mb"] = _peak_mb()
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measured_here(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main(sys.argv[1:]))
