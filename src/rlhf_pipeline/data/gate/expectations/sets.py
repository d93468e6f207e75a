"""Expectations about whole tables and about splits: enough rows, balance, no prompt in two splits."""

from __future__ import annotations

from typing import ClassVar

from ..relations import SPLIT_RANK
from .base import FigureExpectation, RowExpectation


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
            f" QUALIFY {SPLIT_RANK} < max({SPLIT_RANK}) OVER (PARTITION BY hash({self.key}))"
        )

    def reason(self) -> str:
        return "'the prompt is also in a split kept for evaluation'"


class ExpectPromptsInOneSplit(_InOneSplit):
    """No prompt text is in two splits, in any table."""

    statement: ClassVar[str] = "No prompt is in two splits, in any table (exact text)."
    key: ClassVar[str] = "text"


class ExpectNormalisedPromptsInOneSplit(_InOneSplit):
    """No prompt is in two splits when case, width and white space are ignored."""

    statement: ClassVar[str] = "No prompt is in two splits when case, width and white space are ignored."
    # prepare_data's id of a prompt is the hash of exactly that (records.prompt_id).
    key: ClassVar[str] = "prompt_id"


class ExpectPromptsToBeDistinct(RowExpectation):
    """Each prompt stands once in a split of the prompts table."""

    statement: ClassVar[str] = "Each prompt stands once in the prompts table."

    def count(self) -> str:
        return "count(*) - count(DISTINCT prompt_id)"

    def rows(self, columns: str) -> str:
        return (
            f'SELECT {columns} FROM "{self.table}"'
            " QUALIFY row_number() OVER (PARTITION BY prompt_id ORDER BY split, row) > 1"
        )

    def reason(self) -> str:
        return "'the same prompt stands in an earlier row'"


class ExpectNoNearDuplicatesAcrossSplits(RowExpectation):
    """No prompt nearly repeats a prompt of a split kept for evaluation."""

    statement: ClassVar[str] = "No prompt nearly repeats one of a split kept for evaluation (word 3-grams)."

    def offends(self) -> str:
        return "similarity IS NOT NULL"

    def reason(self) -> str:
        return "format('{:.2f} similar to prompt {} in {}', similarity, other_id, other_split)"


class ExpectNoBenchmarkText(RowExpectation):
    """No training row shares a passage with a benchmark."""

    statement: ClassVar[str] = "No training row shares a passage with a benchmark (data.benchmarks)."

    def offends(self) -> str:
        return "benchmark IS NOT NULL"

    def reason(self) -> str:
        return "'shares a passage with ' || benchmark"


class ExpectSchema(RowExpectation):
    """Every file has the columns and types of its table."""

    statement: ClassVar[str] = "Every file has the columns and types of its table."
    has_excerpt: ClassVar[bool] = False

    def offends(self) -> str:
        return "problem IS NOT NULL"

    def reason(self) -> str:
        return "problem"
