"""Expectations about who is in the text and in which script it is written: personal data, scripts.

Patterns find candidates, not proof; both kinds only warn unless params.yaml says otherwise.
"""

from __future__ import annotations

from typing import ClassVar

from .. import relations
from .base import RowExpectation

SCRIPTS = (
    "Latin", "Cyrillic", "Han", "Arabic", "Devanagari", "Hangul", "Hiragana", "Katakana", "Greek", "Hebrew",
    "Thai",
)  # fmt: skip
TELEPHONE = (
    r"\+\d{1,3}[ .-]?\(?\d{2,4}\)?([ .-]?\d{2,4}){2,3}\b|\(\d{3}\) ?\d{3}-\d{4}\b|\b\d{3}-\d{3}-\d{4}\b"
)
PERSONAL = {
    "an e-mail address": r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}",
    "a telephone number": TELEPHONE,
    "an IP address": r"\b(25[0-5]|2[0-4]\d|1?\d?\d)(\.(25[0-5]|2[0-4]\d|1?\d?\d)){3}\b",
    "a card number": r"\b(4\d{3}|5[1-5]\d{2}|6011|3[47]\d{2})[ -]?\d{4}[ -]?\d{4}[ -]?\d{3,4}\b",
    "an account number (IBAN)": r"\b[A-Z]{2}\d{2} ?([A-Z0-9]{4} ?){3,7}[A-Z0-9]{1,4}\b",
    "a social security number": r"\b\d{3}-\d{2}-\d{4}\b",
    "an access key": r"\b(sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[A-Z0-9]{16})\b",
}
# One automaton looks for all of them in one pass.
ANY_PERSONAL = "|".join(f"({pattern})" for pattern in PERSONAL.values())


class ExpectNoPersonalData(RowExpectation):
    """No text holds what looks like personal data or an access key."""

    statement: ClassVar[str] = (
        "No text holds what looks like personal data: e-mail, telephone, IP, card, account or social"
        " security numbers, access keys."
    )

    def offends(self) -> str:
        return relations.anywhere(
            self.table, lambda sql: f"regexp_matches({sql}, {relations.quoted(ANY_PERSONAL)})"
        )

    def reason(self) -> str:
        text = " || chr(10) || ".join(f"coalesce({sql}, '')" for sql in relations.texts(self.table).values())
        cases = " ".join(
            f"WHEN regexp_matches({text}, {relations.quoted(pattern)}) THEN {relations.quoted(name)}"
            for name, pattern in PERSONAL.items()
        )
        return f"'holds ' || CASE {cases} END"


class ExpectResponsesInThePromptsScript(RowExpectation):
    """A response shares at least one script with its prompt."""

    statement: ClassVar[str] = "Chosen and rejected are written in a script that the prompt uses."

    def offends(self) -> str:
        prompt = relations.all_contents(self.table)
        sides = relations.RESPONSE_COLUMNS[self.table]
        # Text of ASCII only is in Latin letters, or in none.
        ascii_only = " AND ".join(f"strlen({sql}) = length({sql})" for sql in (prompt, *sides))
        strays = " OR ".join(self._strays(prompt, side) for side in sides)
        return f"CASE WHEN {ascii_only} THEN false ELSE {strays} END"

    def _strays(self, prompt: str, side: str) -> str:
        """Whether prompt and side have letters but no script in common; each test only if it is needed."""

        def both(script: str) -> str:
            return " AND ".join(f"regexp_matches({sql}, '\\p{{{script}}}')" for sql in (prompt, side))

        shared = " ".join(f"WHEN {both(script)} THEN false" for script in SCRIPTS)
        return f"CASE {shared} ELSE {both('L')} END"

    def reason(self) -> str:
        return "'a response is written in another script than its prompt'"


class ExpectExpectedScripts(RowExpectation):
    """Every letter belongs to one of the scripts named in params.yaml."""

    scripts: list[str]

    success_keys: ClassVar[tuple[str, ...]] = ("max_fraction", "listed", "scripts")
    statement: ClassVar[str] = "Every letter belongs to one of validate_data.scripts."

    def _strays(self, sql: str) -> str:
        allowed = "".join(f"\\p{{{script}}}" for script in [*self.scripts, "Common", "Inherited"])
        return f"regexp_matches({sql}, '[^\\P{{L}}{allowed}]')"

    def offends(self) -> str:
        return relations.anywhere(self.table, self._strays)

    def reason(self) -> str:
        return f"{relations.where_found(self.table, self._strays)} || ' holds letters of another script'"
