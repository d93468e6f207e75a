"""Expectations about the text of any table: present, clean, and with turns in order."""

from __future__ import annotations

from typing import ClassVar

from .. import encoding, relations
from .base import RowExpectation

# Letters that UTF-8 read as Latin-1 or Windows-1252 leaves behind, and the replacement character.
MOJIBAKE = r"Ã[\x{80}-\x{BF}]|â€[\x{9C}\x{9D}™œ“”˜¦]|Â[\x{A0}-\x{BF}]|ï»¿|\x{FFFD}"
CONTROL = (*range(9), 11, 12, *range(14, 32), 127)
"""Code points below 128 that no text should hold."""
CONTROL_BEYOND_ASCII = r"[\x{80}-\x{84}\x{86}-\x{9F}]"
ONLY_SPACE = r"[\s\p{Z}\x{200B}\x{FEFF}]*"
TURNS = {
    "preferences": "(system,)?user,(assistant,(tool,)*(assistant,)?user,)*",
    "prompts": "(system,)?user,(assistant,(tool,)*(assistant,)?user,)*",
    "sft": "(system,)?(user,(assistant,(tool,)+)*assistant,)+",
}


def beyond_ascii(sql: str, pattern: str) -> str:
    """Whether a pattern that needs characters beyond ASCII is found, at no cost for text that has none."""
    return f"CASE WHEN strlen({sql}) = length({sql}) THEN false ELSE regexp_matches({sql}, '{pattern}') END"


class ExpectValidUtf8(RowExpectation):
    """Every text is UTF-8: the scan decodes it, and raises where it is not.

    After that the rows are judged in the relation `encoding`, which knows what is wrong with each.
    """

    statement: ClassVar[str] = "Every text is valid UTF-8, without lone surrogates."
    has_excerpt: ClassVar[bool] = False

    def offends(self) -> str:
        if self.table == encoding.NAME:
            return "problem IS NOT NULL"
        # No text is less than the empty one, but to compare them the scan has all of it decoded.
        return relations.each_message(self.table, lambda sql: f"{sql} < ''")

    def reason(self) -> str:
        return "problem" if self.table == encoding.NAME else super().reason()


class ExpectTextToBePresent(RowExpectation):
    """Every message and response holds text: not null, not empty, not only white space."""

    statement: ClassVar[str] = (
        "Every message and response holds text: none is null, empty or only white space."
    )

    def _lacks(self, sql: str) -> str:
        # A text that starts with a visible ASCII character needs no regular expression.
        return (
            f"CASE WHEN {sql} >= '!' AND {sql} < chr(127) THEN false"
            f" ELSE {sql} IS NULL OR regexp_full_match({sql}, '{ONLY_SPACE}') END"
        )

    def offends(self) -> str:
        column = relations.PROMPT_COLUMN[self.table]
        return f"coalesce(len({column}), 0) = 0 OR {relations.each_message(self.table, self._lacks)}"

    def reason(self) -> str:
        columns = relations.RESPONSE_COLUMNS[self.table]
        cases = " ".join(f"WHEN {self._lacks(column)} THEN '{column} holds no text'" for column in columns)
        other = f"'a message of {relations.PROMPT_COLUMN[self.table]} holds no text'"
        return f"CASE {cases} ELSE {other} END" if cases else other


class ExpectTurnsInOrder(RowExpectation):
    """Roles alternate: an optional system message, then user and assistant in turn."""

    statement: ClassVar[str] = (
        "Roles come in order: an optional system message, then user and assistant in turn"
        " (a prompt ends with the user, a demonstration with the assistant)."
    )

    def _roles(self) -> str:
        column = relations.PROMPT_COLUMN[self.table]
        return f"array_to_string(list_transform({column}, lambda m: coalesce(m.role, 'null') || ','), '')"

    def offends(self) -> str:
        return f"NOT regexp_full_match({self._roles()}, '{TURNS[self.table]}')"

    def reason(self) -> str:
        return f"'roles are ' || rtrim({self._roles()}, ',')"


class ExpectNoControlCharacters(RowExpectation):
    """No text holds control characters other than tab and line ends."""

    statement: ClassVar[str] = "No text holds control characters other than tab and line ends."

    def _holds(self, sql: str) -> str:
        # A search for one byte runs at memory speed; 29 of them cost half of one regular expression.
        below = " OR ".join(f"contains({sql}, chr({code}))" for code in CONTROL)
        return f"{below} OR {beyond_ascii(sql, CONTROL_BEYOND_ASCII)}"

    def offends(self) -> str:
        return relations.anywhere(self.table, self._holds)

    def reason(self) -> str:
        return f"{relations.where_found(self.table, self._holds)} || ' holds a control character'"


class ExpectNoMojibake(RowExpectation):
    """No text shows the marks of a wrong decoding."""

    statement: ClassVar[str] = (
        "No text shows the marks of a wrong decoding (UTF-8 read as Latin-1, or the replacement character)."
    )

    def _holds(self, sql: str) -> str:
        return beyond_ascii(sql, MOJIBAKE)

    def offends(self) -> str:
        return relations.anywhere(self.table, self._holds)

    def reason(self) -> str:
        found = relations.where_found(self.table, self._holds)
        return f"{found} || ' looks wrongly decoded'"
