"""Builders of small hostile source files, and the unusual ones that must load, with the rows they hold.

The malformed ones are in hostile_errors.py; test_hostile_data.py sends both through prepare.
"""

from __future__ import annotations

import datetime
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import zstandard

PAIR = {"prompt": "Why?", "chosen": "Because.", "rejected": "No."}
OTHER = {"prompt": "How?", "chosen": "So.", "rejected": "Never."}


def jsonl(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def parquet(columns: dict[str, Any], **kwargs: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **kwargs)
    return sink.getvalue()


def arrow(columns: dict[str, Any], stream: bool = False) -> bytes:
    table = pa.table(columns)
    sink = io.BytesIO()
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with new(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def columns(**changed: Any) -> dict[str, Any]:
    return {
        "prompt": pa.array(["Why?", "How?"]),
        "chosen": pa.array(["Because.", "So."]),
        "rejected": pa.array(["No.", "Never."]),
    } | changed


def raw_utf8(*values: bytes) -> pa.Array:
    """A string array over bytes that nobody checked."""
    return pa.array(list(values), pa.binary()).view(pa.string())


def xlsx(*rows: list[Any]) -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def zip_bomb() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * 80 * 2**20)
    return sink.getvalue()


def empty_zip() -> bytes:
    sink = io.BytesIO()
    zipfile.ZipFile(sink, "w").close()
    return sink.getvalue()


SPACE = b" " * 2**20 + b"\n"
HEADER = ["prompt", "chosen", "rejected"]
TWO = {("Why?", "Because.", "No."), ("How?", "So.", "Never.")}
LONG = "word " * 2_000_000
MESSAGES = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]

LOADS: dict[str, tuple[str, Callable[[], bytes], set[tuple[str, str, str]]]] = {
    "json_lines": ("a.jsonl", lambda: jsonl(PAIR, OTHER), TWO),
    "json_lines_without_last_newline": ("a.jsonl", lambda: jsonl(PAIR, OTHER).rstrip(b"\n"), TWO),
    "byte_order_mark": ("a.jsonl", lambda: b"\xef\xbb\xbf" + jsonl(PAIR, OTHER), TWO),
    "crlf": ("a.jsonl", lambda: jsonl(PAIR, OTHER).replace(b"\n", b"\r\n"), TWO),
    "blank_lines": ("a.jsonl", lambda: b"\n\n" + jsonl(PAIR) + b"  \n" + jsonl(OTHER), TWO),
    "line_separator_inside_text": (
        "a.jsonl",
        lambda: json.dumps(PAIR | {"chosen": "one\u2028two\x85three"}, ensure_ascii=False).encode(),
        {("Why?", "one\u2028two\x85three", "No.")},
    ),
    "json_list": ("a.json", lambda: json.dumps([PAIR, OTHER]).encode(), TWO),
    "json_object_around_the_list": (
        "a.json",
        lambda: json.dumps({"data": [PAIR, OTHER], "version": 1}).encode(),
        TWO,
    ),
    "json_lines_named_json": ("a.json", lambda: jsonl(PAIR, OTHER), TWO),
    "gzip": ("a.jsonl.gz", lambda: gzip.compress(jsonl(PAIR, OTHER)), TWO),
    "two_gzip_members": ("a.jsonl.gz", lambda: gzip.compress(jsonl(PAIR)) + gzip.compress(jsonl(OTHER)), TWO),
    "zstandard": ("a.jsonl.zst", lambda: zstandard.compress(jsonl(PAIR, OTHER)), TWO),
    "two_zstandard_frames": (
        "a.jsonl.zst",
        lambda: zstandard.compress(jsonl(PAIR)) + zstandard.compress(jsonl(OTHER)),
        TWO,
    ),
    "ten_megabytes_in_a_row": ("a.jsonl", lambda: jsonl(PAIR | {"chosen": LONG}), {("Why?", LONG, "No.")}),
    "unknown_columns_of_any_type": (
        "a.jsonl",
        lambda: jsonl(
            PAIR | {"id": 10**400, "x": [[None]], "score": None}, OTHER | {"extra": {"deep": [1, "a"]}}
        ),
        TWO,
    ),
    "escaped_astral_character": (
        "a.jsonl",
        lambda: jsonl(PAIR | {"chosen": "\U0001f600"}),
        {("Why?", "\U0001f600", "No.")},
    ),
    "parquet": ("a.parquet", lambda: parquet(columns()), TWO),
    "large_string": (
        "a.parquet",
        lambda: parquet(columns(chosen=pa.array(["Because.", "So."], pa.large_string()))),
        TWO,
    ),
    "dictionary_encoded": (
        "a.parquet",
        lambda: parquet(columns(chosen=pa.array(["Because.", "So."]).dictionary_encode())),
        TWO,
    ),
    "string_view": (
        "a.arrow",
        lambda: arrow(columns(chosen=pa.array(["Because.", "So."], pa.string_view()))),
        TWO,
    ),
    "run_end_encoded_column_beside": (
        "a.arrow",
        lambda: arrow(
            columns(source=pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["x"])))
        ),
        TWO,
    ),
    "list_view_of_messages": (
        "a.arrow",
        lambda: arrow(
            columns(
                prompt=pa.array(
                    [[MESSAGES[0]], [{"role": "user", "content": "How?"}]],
                    pa.list_view(pa.struct([("role", pa.string()), ("content", pa.string())])),
                )
            )
        ),
        TWO,
    ),
    "timestamps_as_ids": (
        "a.parquet",
        lambda: parquet(columns(id=pa.array([datetime.datetime(2024, 1, 1)] * 2))),
        TWO,
    ),
    "decimals_and_bytes_beside": (
        "a.parquet",
        lambda: parquet(
            columns(weight=pa.array([1, 2]).cast(pa.decimal128(30, 2)), blob=pa.array([b"\xff", None]))
        ),
        TWO,
    ),
    "arrow_stream": ("a.arrow", lambda: arrow(columns(), stream=True), TWO),
    "csv": ("a.csv", lambda: b'prompt,chosen,rejected\nWhy?,Because.,No.\nHow?,So.,"Never."\n', TWO),
    "csv_with_bom_and_crlf": (
        "a.csv",
        lambda: b"\xef\xbb\xbfprompt,chosen,rejected\r\nWhy?,Because.,No.\r\nHow?,So.,Never.\r\n",
        TWO,
    ),
    "csv_quoted_newlines": (
        "a.csv",
        lambda: b'prompt,chosen,rejected\nWhy?,"one\ntwo, ""three""",No.\n',
        {("Why?", 'one\ntwo, "three"', "No.")},
    ),
    "csv_numbers_stay_text": ("a.csv", lambda: b"prompt,chosen,rejected\n1,2,3.50\n", {("1", "2", "3.50")}),
    "csv_gzip": (
        "a.csv.gz",
        lambda: gzip.compress(b"prompt,chosen,rejected\nWhy?,Because.,No.\n"),
        {("Why?", "Because.", "No.")},
    ),
    "tsv": (
        "a.tsv",
        lambda: b"prompt\tchosen\trejected\nWhy?\tBecause.\tNo.\n",
        {("Why?", "Because.", "No.")},
    ),
    "xlsx": ("a.xlsx", lambda: xlsx(HEADER, ["Why?", "Because.", "No."], ["How?", "So.", "Never."]), TWO),
    "xlsx_empty_rows": (
        "a.xlsx",
        lambda: xlsx(HEADER, ["Why?", "Because.", "No."], [], ["How?", "So.", "Never."]),
        TWO,
    ),
    "messages_in_csv": (
        "a.csv",
        lambda: b'prompt,chosen,rejected\n"[{""role"": ""user"", ""content"": ""Why?""}]",Because.,No.\n',
        {("Why?", "Because.", "No.")},
    ),
}
