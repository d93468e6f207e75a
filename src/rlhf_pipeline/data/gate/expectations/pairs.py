"""Expectations about preference pairs: the two sides differ, no pair repeats or contradicts another."""

from __future__ import annotations

from typing import ClassVar

from .base import FigureExpectation, RowExpectation

# Each text is hashed once: the engine evaluates a repeated expression a single time.
SIDES = "hash(chosen), hash(rejected)"
PAIR = f"hash(hash(prompt), {SIDES})"
UNORDERED = f"hash(hash(prompt), least({SIDES}), greatest({SIDES}))"


def first_letter(sql: str) -> str:
    """The first character in lower case."""
    return f"lower(left({sql}, 1))"


def letters_e(sql: str) -> str:
    """How many letters e (or E) a text has."""
    return f"(strlen(lower({sql})) - strlen(replace(lower({sql}), 'e', '')))"


def equal_in_substance(a: str, b: str) -> str:
    """Whether two different texts are equal but for case, white space and punctuation.

    Such texts begin with the same letter, if they begin with one, and have as many letters e: tests
    that are cheap beside the two regular expressions and spare nearly all rows those.
    """
    first_a, first_b = first_letter(a), first_letter(b)
    both_letters = f"{first_a} BETWEEN 'a' AND 'z' AND {first_b} BETWEEN 'a' AND 'z'"
    return (
        f"CASE WHEN {first_a} <> {first_b} AND {both_letters} THEN false"
        f" WHEN {letters_e(a)} <> {letters_e(b)} OR {a} = {b} THEN false"
        f" ELSE normalised({a}) = normalised({b}) END"
    )


class ExpectChosenToDifferFromRejected(RowExpectation):
    """No pair prefers a response to itself."""

    statement: ClassVar[str] = "Chosen and rejected are different texts."

    def offends(self) -> str:
        return "chosen = rejected"

    def reason(self) -> str:
        return "'chosen equals rejected'"


class ExpectChosenToDifferFromRejectedInSubstance(RowExpectation):
    """No pair differs only in case, white space or punctuation."""

    statement: ClassVar[str] = "Chosen and rejected differ in more than case, white space and punctuation."

    def offends(self) -> str:
        return equal_in_substance("chosen", "rejected")

    def reason(self) -> str:
        return "'chosen and rejected differ only in case, white space or punctuation'"


class ExpectNoRepeatedPairs(RowExpectation):
    """No pair stands twice (the first of several equal rows does not offend)."""

    statement: ClassVar[str] = "No pair (prompt, chosen, rejected) stands twice."

    def count(self) -> str:
        return f"count(*) - count(DISTINCT {PAIR})"

    def rows(self, columns: str) -> str:
        return (
            f'SELECT {columns} FROM "{self.table}" WHERE {PAIR} IN'
            f' (SELECT {PAIR} FROM "{self.table}" GROUP BY 1 HAVING count(*) > 1)'
            f" QUALIFY row_number() OVER (PARTITION BY {PAIR} ORDER BY split, row) > 1"
        )

    def reason(self) -> str:
        return "'the same pair stands in an earlier row'"


class ExpectNoContradictingPairs(RowExpectation):
    """No two pairs prefer A to B and B to A for the same prompt."""

    statement: ClassVar[str] = (
        "No two rows contradict each other (A preferred to B and B to A for one prompt)."
    )

    def count(self) -> str:
        # A pair of texts present in both orders has two ordered hashes and one unordered one.
        return f"count(DISTINCT {PAIR}) - count(DISTINCT {UNORDERED})"

    def rows(self, columns: str) -> str:
        return (
            f'SELECT {columns} FROM "{self.table}" WHERE chosen <> rejected AND {UNORDERED} IN'
            f' (SELECT {UNORDERED} FROM "{self.table}" GROUP BY 1 HAVING count(DISTINCT {PAIR}) > 1)'
        )

    def reason(self) -> str:
        return "'another row prefers the same two responses the other way round'"


class ExpectNoLengthBias(FigureExpectation):
    """Chosen responses are not systematically longer or shorter than rejected ones."""

    statement: ClassVar[str] = (
        "The mean of log(chosen length / rejected length) in bytes stays within the bound."
    )

    def figure(self) -> str:
        return "abs(avg(ln(greatest(strlen(chosen), 1) / greatest(strlen(rejected), 1))))"
