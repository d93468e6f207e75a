"""Malformed source files, and the one error that each must give: the file, the row, the column."""

from __future__ import annotations

import datetime
import gzip
import json
import struct
from collections.abc import Callable

import pyarrow as pa
import zstandard

from .hostile_files import (
    HEADER,
    MESSAGES,
    OTHER,
    PAIR,
    SPACE,
    arrow,
    columns,
    empty_zip,
    jsonl,
    parquet,
    raw_utf8,
    xlsx,
    zip_bomb,
)

REFUSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "truncated_parquet": (
        "a.parquet",
        lambda: parquet(columns())[:-20],
        r"a\.parquet: not a readable Parquet file",
    ),
    "parquet_cut_in_the_middle": (
        "a.parquet",
        lambda: (whole := parquet(columns(), compression="none"))[:30] + whole[60:],
        r"a\.parquet: not a readable Parquet file",
    ),
    "wrong_magic": (
        "a.parquet",
        lambda: b"PAR2" + parquet(columns())[4:-4] + b"PAR2",
        r"a\.parquet: not a readable Parquet",
    ),
    "empty_parquet_file": ("a.parquet", lambda: b"", r"a\.parquet: not a readable Parquet file"),
    "footer_length_beyond_the_file": (
        "a.parquet",
        lambda: parquet(columns())[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1",
        r"a\.parquet: not a readable Parquet file",
    ),
    "text_named_parquet": ("a.parquet", lambda: jsonl(PAIR), r"a\.parquet: not a readable Parquet file"),
    "parquet_without_rows": (
        "a.parquet",
        lambda: parquet({name: pa.array([], pa.string()) for name in HEADER}),
        "holds no rows",
    ),
    "invalid_utf8_in_parquet": (
        "a.parquet",
        lambda: parquet(columns(chosen=raw_utf8(b"fine", b"caf\xe9"))),
        r"a\.parquet, row 2: column 'chosen' is not valid",
    ),
    "invalid_utf8_in_arrow": (
        "a.arrow",
        lambda: arrow(columns(rejected=raw_utf8(b"\xff", b"fine"))),
        r"a\.arrow, row 1: column 'rejected' is not valid",
    ),
    "surrogate_bytes_in_parquet": (
        "a.parquet",
        lambda: parquet(columns(chosen=raw_utf8(b"fine", b"\xed\xa0\x80"))),
        r"a\.parquet, row 2: column 'chosen' is not valid",
    ),
    "bytes_where_text_belongs": (
        "a.parquet",
        lambda: parquet(columns(chosen=pa.array([b"Because.", b"So."]))),
        r"a\.parquet, row 1: .*'chosen' must hold text",
    ),
    "numbers_where_text_belongs": (
        "a.parquet",
        lambda: parquet(columns(chosen=pa.array([1, 2]))),
        r"a\.parquet, row 1: .*'chosen' must hold text.*number 1",
    ),
    "timestamp_where_text_belongs": (
        "a.parquet",
        lambda: parquet(columns(prompt=pa.array([datetime.datetime(2024, 1, 1)] * 2))),
        r"a\.parquet, row 1: .*'prompt' must hold",
    ),
    "null_in_parquet": (
        "a.parquet",
        lambda: parquet(columns(rejected=pa.array(["No.", None]))),
        r"a\.parquet, row 2: column 'rejected' must hold text.*null",
    ),
    "truncated_arrow": ("a.arrow", lambda: arrow(columns())[:-40], r"a\.arrow: not a readable Arrow file"),
    "empty_arrow_file": ("a.arrow", lambda: b"", r"a\.arrow: not a readable Arrow file"),
    "mixed_types_in_a_column": (
        "a.jsonl",
        lambda: jsonl(PAIR, OTHER | {"chosen": 7}),
        r"a\.jsonl, row 2: column 'chosen' must hold text.*number 7",
    ),
    "boolean_where_text_belongs": (
        "a.jsonl",
        lambda: jsonl(PAIR, OTHER | {"chosen": True}),
        r"a\.jsonl, row 2: column 'chosen' must hold text.*boolean True",
    ),
    "null_text": (
        "a.jsonl",
        lambda: jsonl(PAIR, OTHER | {"chosen": None}),
        r"row 2: column 'chosen' must hold text.*null",
    ),
    "missing_column_later": (
        "a.jsonl",
        lambda: jsonl(PAIR, {"prompt": "How?", "chosen": "So."}),
        r"row 2: column 'rejected' is missing",
    ),
    "nested_null": (
        "a.jsonl",
        lambda: jsonl({"messages": MESSAGES}, {"messages": [MESSAGES[0], None]}),
        r"a\.jsonl, row 2: column 'messages\[1\]' must hold a message",
    ),
    "null_content": (
        "a.jsonl",
        lambda: jsonl({"messages": [MESSAGES[0], {"role": "assistant", "content": None}]}),
        r"row 1: column 'messages\[1\]\.content' must hold text, got null",
    ),
    "unknown_role": (
        "a.jsonl",
        lambda: jsonl({"messages": [{"role": "wizard", "content": "x"}, MESSAGES[1]]}),
        r"row 1: column 'messages\[0\]\.role' holds an unknown role 'wizard'",
    ),
    "no_messages": (
        "a.jsonl",
        lambda: jsonl({"messages": MESSAGES}, {"messages": []}),
        r"row 2: column 'messages' must hold a non-empty",
    ),
    "ends_with_the_user": (
        "a.jsonl",
        lambda: jsonl({"messages": [*MESSAGES, MESSAGES[0]]}),
        r"row 1: column 'messages' must end with the assistant",
    ),
    "conversations_that_part_early": (
        "a.jsonl",
        lambda: jsonl({"chosen": MESSAGES, "rejected": [{"role": "user", "content": "How?"}, MESSAGES[1]]}),
        r"row 1: columns 'chosen' and 'rejected' part at message 1",
    ),
    "nan_score": (
        "a.jsonl",
        lambda: b'{"prompt": "Why?", "responses": ["a", "b"], "scores": [NaN, 1.0]}',
        r"a\.jsonl, row 1: column 'scores\[0\]' must hold a finite number, got nan",
    ),
    "infinite_score": (
        "a.jsonl",
        lambda: b'{"prompt": "Why?", "responses": ["a", "b"], "scores": [1.0, 1e999]}',
        r"row 1: column 'scores\[1\]' must hold a finite number, got inf",
    ),
    "huge_integer_score": (
        "a.jsonl",
        lambda: b'{"prompt": "Why?", "responses": ["a", "b"], "scores": [1, ' + b"9" * 400 + b"]}",
        r"row 1: column 'scores\[1\]' holds an integer of 400 digits",
    ),
    "integer_of_5000_digits": (
        "a.jsonl",
        lambda: b'{"prompt": ' + b"9" * 5000 + b"}",
        r"a\.jsonl, row 1: is not JSON",
    ),
    "score_as_text": (
        "a.jsonl",
        lambda: jsonl({"prompt": "Why?", "responses": ["a", "b"], "scores": ["0.1", 2]}),
        r"row 1: column 'scores\[0\]' must hold a number, got text",
    ),
    "fewer_scores_than_responses": (
        "a.jsonl",
        lambda: jsonl({"prompt": "Why?", "responses": ["a", "b"], "scores": [1]}),
        r"row 1: column 'scores' must list one number per response \(2\)",
    ),
    "vote_out_of_range": (
        "a.jsonl",
        lambda: jsonl({"instruction": "x", "input": "", "response1": "a", "response2": "b", "annotator1": 3}),
        r"row 1: column 'annotator1' must hold 0 \(tie\), 1 or 2, got number 3",
    ),
    "duplicate_keys": (
        "a.jsonl",
        lambda: jsonl(PAIR) + b'{"prompt": "a", "chosen": "b", "rejected": "c", "chosen": "d"}\n',
        r"a\.jsonl, row 2: the key 'chosen' stands twice",
    ),
    "broken_json_line": (
        "a.jsonl",
        lambda: jsonl(PAIR) + b'{"prompt": "How?", \n',
        r"a\.jsonl, row 2: is not JSON",
    ),
    "truncated_json_list": (
        "a.json",
        lambda: json.dumps([PAIR, OTHER]).encode()[:-10],
        r"a\.json: is not JSON",
    ),
    "json_scalar": ("a.json", lambda: b"42", r"a\.json: must hold a list of rows, got number 42"),
    "json_object_without_a_list": (
        "a.json",
        lambda: json.dumps(PAIR, indent=1).encode(),
        r"a\.json: must hold a list of rows",
    ),
    "json_list_of_lists": ("a.json", lambda: b'[["Why?", "Because."]]', r"a\.json, row 1: must be an object"),
    "line_that_is_a_list": ("a.jsonl", lambda: jsonl(PAIR) + b"[1]\n", r"a\.jsonl, row 2: must be an object"),
    "deep_nesting": (
        "a.jsonl",
        lambda: b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        r"a\.jsonl, row 1: is nested too deeply",
    ),
    "utf16": ("a.jsonl", lambda: json.dumps(PAIR).encode("utf-16"), r"a\.jsonl: is UTF-16"),
    "utf16_csv": ("a.csv", lambda: "prompt,chosen\n".encode("utf-16"), r"a\.csv: is UTF-16"),
    "latin1": (
        "a.jsonl",
        lambda: jsonl(PAIR) + b'{"prompt": "caf\xe9", "chosen": "a", "rejected": "b"}\n',
        r"a\.jsonl, row 2: byte 15 \(0xe9\) is not UTF-8",
    ),
    "lone_surrogate": (
        "a.jsonl",
        lambda: jsonl(PAIR) + b'{"prompt": "x", "chosen": "bad \\ud83d", "rejected": "b"}\n',
        r"a\.jsonl, row 2: column 'chosen' holds a lone surrogate",
    ),
    "null_bytes": ("a.jsonl", lambda: b"\x00" * 100, r"a\.jsonl, row 1: is not JSON"),
    "empty_file": ("a.jsonl", lambda: b"", "holds no rows"),
    "only_blank_lines": ("a.jsonl", lambda: b"\n \n\t\n", "holds no rows"),
    "empty_json_list": ("a.json", lambda: b"[]", "holds no rows"),
    "row_beyond_the_limit": (
        "a.jsonl",
        lambda: b'{"prompt": "' + b"x" * (65 * 2**20) + b'"}',
        r"a\.jsonl, row 1: a row of more than 64 MiB",
    ),
    "truncated_gzip": (
        "a.jsonl.gz",
        lambda: gzip.compress(jsonl(PAIR) * 50)[:-12],
        r"a\.jsonl\.gz: damaged or truncated",
    ),
    "text_named_gzip": ("a.jsonl.gz", lambda: jsonl(PAIR), r"a\.jsonl\.gz: damaged or truncated"),
    "truncated_zstandard": (
        "a.jsonl.zst",
        lambda: zstandard.compress(jsonl(PAIR) * 50)[:-9],
        r"a\.jsonl\.zst: damaged or truncated",
    ),
    "gzip_bomb": (
        "a.jsonl.gz",
        lambda: gzip.compress(SPACE * 80),
        r"a\.jsonl\.gz: expands to more than 200 times",
    ),
    "zstandard_bomb": (
        "a.jsonl.zst",
        lambda: zstandard.compress(SPACE * 80),
        r"a\.jsonl\.zst: expands to more than 200 times",
    ),
    "parquet_bomb": (
        "a.parquet",
        lambda: parquet(
            {name: pa.array(["x" * 2**20]).take(pa.array([0] * 40)) for name in HEADER}, compression="zstd"
        ),
        r"a\.parquet: expands to more than 2000 times",
    ),
    "zip_bomb_named_xlsx": ("a.xlsx", zip_bomb, r"a\.xlsx: expands to 80 MiB.*refused"),
    "text_named_xlsx": ("a.xlsx", lambda: jsonl(PAIR), r"a\.xlsx: not a readable XLSX file"),
    "zip_without_a_workbook": ("a.xlsx", empty_zip, r"a\.xlsx: not a readable XLSX file"),
    "xlsx_number_as_response": (
        "a.xlsx",
        lambda: xlsx(HEADER, ["Why?", 42, "No."]),
        r"a\.xlsx, row 1: column 'chosen' must hold text.*number 42",
    ),
    "xlsx_repeated_header": (
        "a.xlsx",
        lambda: xlsx(["prompt", "chosen", "chosen"], ["a", "b", "c"]),
        r"a\.xlsx: the column 'chosen' stands twice",
    ),
    "ragged_csv": (
        "a.csv",
        lambda: b"prompt,chosen,rejected\nWhy?,Because.,No.\nHow?,So.\n",
        r"a\.csv, row 2: has 2 cells, the header has 3",
    ),
    "unbalanced_quote": (
        "a.csv",
        lambda: b'prompt,chosen,rejected\nWhy?,"Because.,No.\n',
        r"a\.csv, row 1: is not CSV",
    ),
    "repeated_csv_header": (
        "a.csv",
        lambda: b"prompt,chosen,chosen\na,b,c\n",
        r"a\.csv: the column 'chosen' stands twice",
    ),
    "csv_without_a_header_name": (
        "a.csv",
        lambda: b"prompt,,rejected\na,b,c\n",
        r"a\.csv: column 2 of the header has no name",
    ),
    "csv_with_another_separator": (
        "a.csv",
        lambda: b"prompt;chosen;rejected\na;b;c\n",
        r"a\.csv: the header is one column.*options\.separator",
    ),
    "latin1_csv": (
        "a.csv",
        lambda: b"prompt,chosen,rejected\nWhy?,caf\xe9,No.\n",
        r"a\.csv.*0xe9\) is not UTF-8",
    ),
    "empty_csv": ("a.csv", lambda: b"", r"a\.csv: has no header row"),
    "header_only_csv": ("a.csv", lambda: b"prompt,chosen,rejected\n", "holds no rows"),
    "unknown_suffix": ("a.txt", lambda: jsonl(PAIR), r"a\.txt: unknown format"),
    "compressed_parquet": (
        "a.parquet.gz",
        lambda: gzip.compress(parquet(columns())),
        r"a\.parquet\.gz: unknown format",
    ),
    "unknown_columns": (
        "a.jsonl",
        lambda: jsonl({"foo": 1, "bar": "x"}),
        r"(?s)a\.jsonl, row 1: no known shape fits.*foo: number 1.*bar: text 'x'.*preference:",
    ),
    "no_columns": ("a.jsonl", lambda: jsonl({}), r"a\.jsonl, row 1: no known shape fits"),
}
