"""Which expectations each suite holds, with severity and thresholds from params.yaml.

A suite per table, and one for each kind of question that looks between tables or needs facts of its
own. Pure: the facts are made in facts.py, the suites run in run.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...params.training import CheckParams, ValidateData
from ..chat import ChatTokenizer
from ..expectation_names import DEFAULT_SEVERITY
from . import contamination, encoding, files, near_duplicates
from .expectations import pairs, people, sets, text, tokens
from .expectations.base import RelationExpectation, RowExpectation
from .relations import ALL_PROMPTS
from .tokens import TOKENIZER, relation

SEVERITIES = {"error": "critical", "warn": "warning"}
Suites = dict[str, list[RelationExpectation]]


@dataclass(frozen=True, slots=True)
class Budgets:
    """Token budgets of params.yaml."""

    max_prompt_tokens: int
    max_response_tokens: int


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation before severity and tolerance are applied: its class, place and own arguments."""

    suite: str
    kind: type[RelationExpectation]
    table: str
    heading: str
    arguments: dict[str, Any] = field(default_factory=dict)


def schema_suite(section: ValidateData) -> Suites:
    """What must hold before anything else can be looked at."""
    return _made([Check("files", sets.ExpectSchema, files.NAME, "files")], section)


def encoding_suite(section: ValidateData) -> Suites:
    """Which rows cannot be read, once a scan has stumbled."""
    return _made([Check("encoding", text.ExpectValidUtf8, encoding.NAME, "text")], section)


def suites(section: ValidateData, budgets: Budgets, chat: ChatTokenizer, has_benchmarks: bool) -> Suites:
    """Suite name -> expectations, those switched off left out, empty suites too."""
    checks: list[Check] = []
    for table in section.tables:
        checks += [*_of_table(table, section), *_of_text(table), *_of_tokens(table, budgets, chat)]
        checks += _of_people(table, section)
    checks += _between_splits(section, has_benchmarks)
    return _made(checks, section)


def _of_table(table: str, section: ValidateData) -> Iterator[Check]:
    yield Check(table, sets.ExpectEnoughTrainingRows, table, "rows", {"minimum": section.min_rows})
    yield Check(table, sets.ExpectRowsInEverySplit, table, "rows", {"minimum": 3})
    yield Check(table, sets.ExpectNoDominantSource, table, "rows", {"maximum": section.max_source_share})
    if table == "prompts":
        yield Check(table, sets.ExpectPromptsToBeDistinct, table, "rows")
    yield Check(table, text.ExpectValidUtf8, table, "text")
    yield Check(table, text.ExpectTextToBePresent, table, "text")
    yield Check(table, text.ExpectTurnsInOrder, table, "text")
    if table == "preferences":
        yield Check(table, pairs.ExpectChosenToDifferFromRejected, table, "pairs")
        yield Check(table, pairs.ExpectNoRepeatedPairs, table, "pairs")
        yield Check(table, pairs.ExpectNoContradictingPairs, table, "pairs")
        yield Check(table, pairs.ExpectNoLengthBias, table, "pairs", {"maximum": section.max_length_bias})


def _of_text(table: str) -> Iterator[Check]:
    yield Check("text", text.ExpectNoControlCharacters, table, table)
    yield Check("text", text.ExpectNoMojibake, table, table)
    if table == "preferences":
        yield Check("text", pairs.ExpectChosenToDifferFromRejectedInSubstance, table, table)


def _of_tokens(table: str, budgets: Budgets, chat: ChatTokenizer) -> Iterator[Check]:
    suite, facts, heading = "tokens", relation(table), table
    prompt, response = budgets.max_prompt_tokens, budgets.max_response_tokens
    if table == "sft":
        both = {"max_tokens": prompt + response}
        yield Check(suite, tokens.ExpectConversationsToFit, facts, heading, both)
        yield Check(suite, tokens.ExpectEosToBeTrained, facts, heading)
    else:
        yield Check(suite, tokens.ExpectPromptsToFit, facts, heading, {"max_tokens": prompt})
    if table == "preferences":
        yield Check(suite, tokens.ExpectResponsesToFit, facts, heading, {"max_tokens": response})
        yield Check(suite, tokens.ExpectChosenToDifferWhenCut, facts, heading)
    yield Check(suite, tokens.ExpectTemplateToRender, facts, heading)
    yield Check(suite, tokens.ExpectOneBos, facts, heading, {"expected": chat.expected_bos()})
    special = {"tokens": chat.special_tokens()}
    yield Check(suite, tokens.ExpectNoSpecialTokensInText, table, heading, special)
    if table == "sft":
        yield Check(suite, tokens.ExpectPadToDifferFromEos, TOKENIZER, "tokenizer")


def _of_people(table: str, section: ValidateData) -> Iterator[Check]:
    yield Check("personal data", people.ExpectNoPersonalData, table, table)
    if table == "preferences":
        yield Check("scripts", people.ExpectResponsesInThePromptsScript, table, table)
    if section.scripts:
        yield Check("scripts", people.ExpectExpectedScripts, table, table, {"scripts": section.scripts})


def _between_splits(section: ValidateData, has_benchmarks: bool) -> Iterator[Check]:
    yield Check("splits", sets.ExpectPromptsInOneSplit, ALL_PROMPTS, "splits")
    yield Check("splits", sets.ExpectNormalisedPromptsInOneSplit, ALL_PROMPTS, "splits")
    near = near_duplicates.NAME
    yield Check("near duplicates", sets.ExpectNoNearDuplicatesAcrossSplits, near, "splits")
    if has_benchmarks:
        yield Check("benchmarks", sets.ExpectNoBenchmarkText, contamination.NAME, "training rows")


def _made(checks: list[Check], section: ValidateData) -> Suites:
    found: Suites = {}
    for check in checks:
        name = check.kind.expectation_type
        wanted = section.checks.get(name, DEFAULT_SEVERITY[name])
        params = wanted if isinstance(wanted, CheckParams) else CheckParams(severity=wanted, max_fraction=0.0)
        if params.severity == "off":
            continue
        arguments = check.arguments
        if issubclass(check.kind, RowExpectation):
            arguments = arguments | {"max_fraction": params.max_fraction, "listed": section.max_reported_rows}
        made = check.kind(
            table=check.table,
            column=check.heading,
            description=check.kind.statement,
            severity=SEVERITIES[params.severity],
            **arguments,
        )
        found.setdefault(check.suite, []).append(made)
    return found
