"""Expectations about rows as the real tokenizer and chat template see them."""

from __future__ import annotations

from typing import ClassVar

from .. import relations
from .base import RowExpectation


class _TokenBudget(RowExpectation):
    """A count of tokens stays within `max_tokens`."""

    max_tokens: int

    success_keys: ClassVar[tuple[str, ...]] = ("max_fraction", "listed", "max_tokens")
    counted: ClassVar[tuple[str, ...]]

    def offends(self) -> str:
        return " OR ".join(f"{column} > {self.max_tokens}" for column in self.counted)

    def reason(self) -> str:
        longest = f"greatest({', '.join(self.counted)})"
        return f"{longest} || ' tokens, more than the budget of {self.max_tokens}'"


class ExpectPromptsToFit(_TokenBudget):
    """No prompt is longer than data.max_prompt_tokens after the chat template."""

    statement: ClassVar[str] = "No prompt is longer than data.max_prompt_tokens after the chat template."
    counted: ClassVar[tuple[str, ...]] = ("prompt_tokens",)


class ExpectResponsesToFit(_TokenBudget):
    """No response is longer than data.max_response_tokens, EOS included."""

    statement: ClassVar[str] = "No response is longer than data.max_response_tokens, EOS included."
    counted: ClassVar[tuple[str, ...]] = ("chosen_tokens", "rejected_tokens")


class ExpectConversationsToFit(_TokenBudget):
    """No demonstration is longer than prompt and response budget together."""

    statement: ClassVar[str] = (
        "No demonstration is longer than data.max_prompt_tokens + data.max_response_tokens."
    )
    counted: ClassVar[tuple[str, ...]] = ("conversation_tokens",)


class ExpectChosenToDifferWhenCut(RowExpectation):
    """Chosen and rejected still differ after truncation at the response budget."""

    statement: ClassVar[str] = "Chosen and rejected still differ when cut at data.max_response_tokens."

    def offends(self) -> str:
        return "equal_when_cut"

    def reason(self) -> str:
        return "'chosen and rejected are equal up to the response budget'"


class ExpectTemplateToRender(RowExpectation):
    """The model's chat template accepts every conversation."""

    statement: ClassVar[str] = "The model's chat template renders every conversation."

    def offends(self) -> str:
        return "template_error IS NOT NULL"

    def reason(self) -> str:
        return "'the chat template raised ' || template_error"


class ExpectOneBos(RowExpectation):
    """A rendered conversation starts with `expected` BOS tokens: one, or none where the model has none."""

    expected: int

    success_keys: ClassVar[tuple[str, ...]] = ("max_fraction", "listed", "expected")
    statement: ClassVar[str] = (
        "Every rendered conversation starts with exactly one BOS (none if the model uses none)."
    )

    def offends(self) -> str:
        return f"template_error IS NULL AND leading_bos <> {self.expected}"

    def reason(self) -> str:
        return f"'starts with ' || leading_bos || ' BOS tokens instead of {self.expected}'"


class ExpectEosToBeTrained(RowExpectation):
    """EOS follows the last response of every demonstration, so that the model learns to stop."""

    statement: ClassVar[str] = "EOS follows the last response of every demonstration."

    def offends(self) -> str:
        return "template_error IS NULL AND NOT trains_eos"

    def reason(self) -> str:
        return "'no EOS token after the last response'"


class ExpectNoSpecialTokensInText(RowExpectation):
    """No text holds one of the tokenizer's special tokens, which would end or forge a turn."""

    tokens: list[str]

    success_keys: ClassVar[tuple[str, ...]] = ("max_fraction", "listed", "tokens")
    statement: ClassVar[str] = (
        "No text holds a special token of the tokenizer, which would end or forge a turn."
    )

    def _holds(self, sql: str) -> str:
        listed = ", ".join(relations.quoted(token) for token in self.tokens)
        return f"len(list_filter([{listed}]::VARCHAR[], lambda t: contains({sql}, t))) > 0"

    def offends(self) -> str:
        return relations.anywhere(self.table, self._holds)

    def reason(self) -> str:
        return f"{relations.where_found(self.table, self._holds)} || ' holds a special token'"


class ExpectPadToDifferFromEos(RowExpectation):
    """The tokenizer pads with something other than EOS, so that masking padding does not mask EOS."""

    statement: ClassVar[str] = "The tokenizer has an EOS and a padding token, and they differ."
    has_excerpt: ClassVar[bool] = False

    def offends(self) -> str:
        return "eos IS NULL OR pad IS NULL OR eos = pad"

    def reason(self) -> str:
        return "'eos is ' || coalesce(eos, 'missing') || ', pad is ' || coalesce(pad, 'missing')"
