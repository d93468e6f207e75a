"""Expectations about whole tables and about splits: enough rows, balance, no prompt in two splits."""

from __future__ import annotations

from typing import ClassVar

from .base import FigureExpectation, RowExpectation

RANK = "CASE split WHEN 'test' THEN 2 WHEN 'validation' THEN 1 ELSE 0 END"


class ExpectEnoughTrainingRows(FigureExpectation):
    """The training split has at least the given number of rows."""

    statement: ClassVar[str] = "The training split has enough rows."

    def figure(self) -> str:
        return "count(*) FILTER (WHERE split = 'train')"


class ExpectRowsInEverySplit(FigureExpectation):
    """Train, validation and test all hold rows."""

    statement: ClassVar[str] = "Train, validation and test all hold rows."

    def figure(self) -> str:
        return "count(DISTINCT split)"


class ExpectNoDominantSource(FigureExpectation):
    """No source makes up more than the given share of the rows."""

    statement: ClassVar[str] = "No source makes up more of the rows than the bound allows."
    default_severity: ClassVar[str] = "warn"

    def figure(self) -> str:
        return "list_max(map_values(histogram(source))) / count(*)"


class _InOneSplit(RowExpectation):
    """A prompt is in one split only; the copy in the less guarded split (train, then validation) offends."""

    key: ClassVar[str]

    def count(self) -> str:
        return f"count(DISTINCT hash({self.key}, split)) - count(DISTINCT hash({self.key}))"

    def rows(self, columns: str) -> str:
        return (
            f'SELECT {columns} FROM "{self.table}" WHERE hash({self.key}) IN'
            f' (SELECT hash({self.key}) FROM "{self.table}" GROUP BY 1 HAVING count(DISTINCT split) > 1)'
            f" QUALIFY {RANK} < max({RANK}) OVER (PARTITION BY hash({self.key}))"
        )

    def reason(self) -> str:
        return "'the prompt is also in a split kept for evaluation'"


class ExpectPromptsInOneSplit(_InOneSplit):
    """No prompt text is in two splits, in any table."""

    statement: ClassVar[str] = "No prompt is in two splits, in any table (exact text)."
    key: ClassVar[str] = "text"


class ExpectNormalisedPromptsInOneSplit(_InOneSplit):
    """No prompt is in two splits when case, white space and punctuation are ignored."""

    statement: ClassVar[str] = (
        "No prompt is in two splits when case, white space and punctuation are ignored."
    )
    key: ClassVar[str] = "normalised(text)"


class ExpectPromptsToBeDistinct(RowExpectation):
    """Each prompt stands once in a split of the prompts table."""

    statement: ClassVar[str] = "Each prompt stands once in the prompts table."
    default_severity: ClassVar[str] = "warn"

    def count(self) -> str:
        return "count(*) - count(DISTINCT prompt_id)"

    def rows(self, columns: str) -> str:
        return (
            f'SELECT {columns} FROM "{self.table}"'
            " QUALIFY row_number() OVER (PARTITION BY prompt_id ORDER BY split, row) > 1"
        )

    def reason(self) -> str:
        return "'the same prompt stands in an earlier row'"
