"""The prepared tables as DuckDB relations, and the SQL fragments that checks are built from.

Every relation carries `home` (the table), `split` and `row` (position in its file), which name a row
for reports and quarantine. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ... import paths

PROMPT_COLUMN = {"preferences": "prompt", "sft": "messages", "prompts": "prompt"}
RESPONSE_COLUMNS = {"preferences": ("chosen", "rejected"), "sft": (), "prompts": ()}
IDENTIFIER = {"preferences": "prompt_id", "sft": "prompt_id", "prompts": "extra_info.prompt_id"}
SOURCE = {"preferences": "source", "sft": "source", "prompts": "data_source"}
ALL_PROMPTS = "all_prompts"
EXCERPT_CHARACTERS = 160
SPLIT_RANK = "CASE split WHEN 'test' THEN 2 WHEN 'validation' THEN 1 ELSE 0 END"
"""How guarded a split is: what repeats in a more guarded one is taken out of the other."""

Predicate = Callable[[str], str]


def relations(prepared: Path) -> dict[str, str]:
    """View name -> SELECT, for each table and for the prompts of all tables together."""
    found = {table: _table(prepared, table) for table in paths.TABLES}
    found[ALL_PROMPTS] = " UNION ALL ".join(
        f'SELECT home, split, row, prompt_id, {all_contents(table, prompt_only=True)} AS text FROM "{table}"'
        for table in paths.TABLES
    )
    return found


def _table(prepared: Path, table: str) -> str:
    return " UNION ALL ".join(
        f"SELECT '{table}' AS home, '{split}' AS split, file_row_number AS row,"
        f" {IDENTIFIER[table]} AS prompt_id, {_columns(table)}"
        f" FROM read_parquet({quoted(str(paths.table(prepared, table, split)))}, file_row_number=true)"
        for split in paths.SPLITS
    )


def _columns(table: str) -> str:
    return {
        "preferences": "prompt, chosen, rejected, source, margin",
        "sft": "messages, source",
        "prompts": "data_source AS source, prompt, ability, reward_model, extra_info",
    }[table]


def quoted(text: str) -> str:
    """An SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def contents(table: str, prompt_only: bool = False) -> str:
    """The list of a row's message contents (of sft without its last message, when `prompt_only`)."""
    column = PROMPT_COLUMN[table]
    if prompt_only and table == "sft":
        column = "messages[:-2]"
    return f"list_transform({column}, lambda m: m.content)"


def all_contents(table: str, prompt_only: bool = False) -> str:
    """A row's message contents as one text, for checks that look for something anywhere."""
    return f"array_to_string({contents(table, prompt_only)}, chr(10))"


def texts(table: str) -> dict[str, str]:
    """Name -> SQL of each text of a row; the messages of a conversation count as one."""
    return {PROMPT_COLUMN[table]: all_contents(table)} | {
        column: column for column in RESPONSE_COLUMNS[table]
    }


def anywhere(table: str, predicate: Predicate) -> str:
    """True when the predicate holds for any text of a row."""
    return " OR ".join(f"({predicate(sql)})" for sql in texts(table).values())


def each_message(table: str, predicate: Predicate) -> str:
    """True when the predicate holds for any single message or response of a row."""
    listed = f"len(list_filter({PROMPT_COLUMN[table]}, lambda m: {predicate('m.content')})) > 0"
    return " OR ".join([f"({listed})", *(f"({predicate(column)})" for column in RESPONSE_COLUMNS[table])])


def where_found(table: str, predicate: Predicate) -> str:
    """The name of the first text for which the predicate holds, as SQL."""
    *others, (last, _) = texts(table).items()
    cases = " ".join(f"WHEN {predicate(sql)} THEN '{name}'" for name, sql in others)
    return f"CASE {cases} ELSE '{last}' END" if cases else f"'{last}'"


def excerpt(table: str) -> str:
    """The start of each text of a row of a table, with its name, as SQL."""
    parts = [
        f"'{name}: ' || coalesce(left({sql}, {EXCERPT_CHARACTERS}), 'null')"
        for name, sql in texts(table).items()
    ]
    return " || ' | ' || ".join(parts)


def excerpts() -> str:
    """The SELECT of every row's excerpt, for looking up the few that offend."""
    return " UNION ALL ".join(
        f'SELECT home, split, row, {excerpt(table)} AS excerpt FROM "{table}"' for table in paths.TABLES
    )
