"""Which expectations each suite holds, with severity and thresholds from params.yaml.

One suite per table and one for what lies between tables and splits. Running them is run.py's job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...params.training import ValidateData
from .expectations import pairs, sets, text
from .expectations.base import RelationExpectation
from .relations import ALL_PROMPTS

SEVERITIES = {"error": "critical", "warn": "warning"}


@dataclass(frozen=True, slots=True)
class Check:
    """One expectation of a suite before severities are applied: its class and its own arguments."""

    kind: type[RelationExpectation]
    heading: str
    arguments: dict[str, Any]


def suites(section: ValidateData) -> dict[str, list[RelationExpectation]]:
    """Suite name -> expectations, those switched off left out."""
    found: dict[str, list[RelationExpectation]] = {}
    for table in section.tables:
        found[table] = [made for check in _of_table(table, section) if (made := _made(check, table, section))]
    found["splits"] = [made for check in _of_splits() if (made := _made(check, ALL_PROMPTS, section))]
    return found


def _of_table(table: str, section: ValidateData) -> Iterator[Check]:
    yield Check(sets.ExpectEnoughTrainingRows, "rows", {"minimum": section.min_rows})
    yield Check(sets.ExpectRowsInEverySplit, "rows", {"minimum": 3})
    yield Check(sets.ExpectNoDominantSource, "rows", {"maximum": section.max_source_share})
    if table == "prompts":
        yield Check(sets.ExpectPromptsToBeDistinct, "rows", {})
    yield Check(text.ExpectTextToBePresent, "text", {})
    yield Check(text.ExpectTurnsInOrder, "text", {})
    yield Check(text.ExpectNoControlCharacters, "text", {})
    yield Check(text.ExpectNoMojibake, "text", {})
    if table == "preferences":
        yield Check(pairs.ExpectChosenToDifferFromRejected, "pairs", {})
        yield Check(pairs.ExpectChosenToDifferFromRejectedInSubstance, "pairs", {})
        yield Check(pairs.ExpectNoRepeatedPairs, "pairs", {})
        yield Check(pairs.ExpectNoContradictingPairs, "pairs", {})
        yield Check(pairs.ExpectNoLengthBias, "pairs", {"maximum": section.max_length_bias})


def _of_splits() -> Iterator[Check]:
    yield Check(sets.ExpectPromptsInOneSplit, "splits", {})
    yield Check(sets.ExpectNormalisedPromptsInOneSplit, "splits", {})


def _made(check: Check, table: str, section: ValidateData) -> RelationExpectation | None:
    name = check.kind.expectation_type
    severity = section.checks.get(name, check.kind.default_severity)
    if severity == "off":
        return None
    return check.kind(
        table=table,
        column=check.heading,
        description=check.kind.statement,
        severity=SEVERITIES[severity],
        **check.arguments,
    )
