"""Validates data/prepared: runs the gate, writes the report, publishes the rows that later stages read.

`stop` publishes all rows or none; `quarantine` publishes the good rows, if what is left passes.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from .. import paths, publish
from ..errors import DataError
from ..params.root import Params
from ..params.training import ValidateData
from .chat import ChatTokenizer
from .expectation_names import UNCONDITIONAL

if TYPE_CHECKING:
    from .gate.facts import Made
    from .gate.run import Finding, Gate, Outcome

MEMORY_GIB = 1.0
DOCS = "docs"
QUARANTINE = "quarantine"
OWN_SPEED = ("tokens", "near duplicates", "benchmarks", "personal data", "scripts")
"""Suites whose rows per second are told: the slow ones, which can be switched off."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided."""

    expectations: int
    warnings: list[str]
    quarantined: dict[str, int]
    speeds: dict[str, float]


def validate(params: Params, prepared: Path, model: Path, facts: Mapping[str, Any]) -> Verdict:
    """Run the gate and publish reports/data, reports/metrics/data.json and, if it holds, data/validated.

    Raises:
        DataError: when an expectation of severity error fails and quarantine cannot help.
    """
    chat = ChatTokenizer(model)
    # Great Expectations takes seconds to import, so nothing is imported before the inputs are there.
    from .gate import docs, quarantine, report

    section = params.validate_data
    quarantined = dict.fromkeys(paths.TABLES, 0)
    with (
        _scratch() as scratch_name,
        publish.publishing(paths.DATA_REPORT, facts) as folder,
    ):
        scratch = Path(scratch_name)
        gate, outcome, made = _judged(params, prepared, chat, scratch)
        report.write(outcome, folder)
        remaining, published = outcome.failed, prepared
        if outcome.failed and section.on_error == "quarantine" and quarantine.quarantinable(outcome.failed):
            published = scratch / "good"
            quarantine.mark(gate.engine, outcome.failed)
            quarantined = quarantine.part(gate.engine, prepared, published, folder / QUARANTINE)
            remaining = _judged(params, published, chat, scratch)[1].failed
        docs.write(outcome, not remaining, sum(quarantined.values()), prepared, folder / DOCS)
        publish.write_json(paths.metrics("data"), report.metrics(outcome, quarantined) | made.figures)
        if not remaining:
            _publish_tables(published, facts)
    if remaining:
        helps = section.on_error == "stop" and quarantine.quarantinable(remaining)
        raise DataError(_refusal(remaining, helps))
    speeds = {suite: speed for suite in OWN_SPEED if (speed := outcome.speed(suite))}
    said = _said(outcome.warned, rows_shown=1)
    return Verdict(len(outcome.findings), said, quarantined, speeds)


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for what does not fit into memory, on the workspace's disk; an older run's is removed."""
    place = paths.SCRATCH / "validate_data"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return tempfile.TemporaryDirectory(dir=place)


def _judged(params: Params, prepared: Path, chat: ChatTokenizer, scratch: Path) -> tuple[Gate, Outcome, Made]:
    """The gate over the prepared tables, what it found, and what came with the facts it needed."""
    from .gate import facts, files, relations, run, suites

    section = params.validate_data
    budgets = suites.Budgets(params.data.max_prompt_tokens, params.data.max_response_tokens)
    gate = run.Gate({files.NAME: files.relation(prepared)}, scratch, MEMORY_GIB)
    outcome = gate.run(suites.schema_suite(section))
    if outcome.failed:
        return gate, outcome, facts.Made()
    for name, select in relations.relations(prepared).items():
        gate.engine.add(name, select)
    wanted = suites.suites(section, budgets, chat, facts.has_benchmarks(prepared))
    kinds = {one.expectation_type for expectations in wanted.values() for one in expectations}
    if kinds <= set(UNCONDITIONAL):
        raise DataError("no expectation is left: validate_data.checks switches every one of them off")
    names = {one.table for expectations in wanted.values() for one in expectations}
    try:
        made = facts.make(gate.engine, names, prepared, section, budgets, chat, scratch)
        judged = gate.run(wanted)
    except (UnicodeDecodeError, duckdb.InvalidInputException):
        unreadable = _unreadable(gate, section, prepared)
        if unreadable is None:
            raise
    else:
        raised = any(one.exception for one in judged.findings)
        unreadable = _unreadable(gate, section, prepared) if raised else None
    if unreadable is not None:
        outcome.extend(unreadable)
        return gate, outcome, facts.Made()
    outcome.extend(judged)
    for suite in made.seconds.keys() & outcome.seconds.keys():
        outcome.seconds[suite] += made.seconds[suite]
    return gate, outcome, made


def _unreadable(gate: Gate, section: ValidateData, prepared: Path) -> Outcome | None:
    """What the encoding suite says of text that cannot be read, or None when all of it can."""
    from .gate import encoding, suites

    select = encoding.find(prepared)
    if select is None:
        return None
    gate.engine.add(encoding.NAME, select)
    return gate.run(suites.encoding_suite(section))


def _publish_tables(source: Path, facts: Mapping[str, Any]) -> None:
    with publish.publishing(paths.VALIDATED, facts) as target:
        for table in paths.TABLES:
            (target / table).mkdir()
            for split in paths.SPLITS:
                shutil.copyfile(paths.table(source, table, split), paths.table(target, table, split))


def _said(findings: list[Finding], rows_shown: int) -> list[str]:
    from .gate.report import lines

    return ["\n".join(lines(one, rows_shown)) for one in findings]


def _refusal(failed: list[Finding], quarantine_helps: bool) -> str:
    way_out = (
        "validate_data.on_error: quarantine takes such rows out"
        if quarantine_helps
        else "taking the offending rows out does not mend this"
    )
    if not any(one.name in UNCONDITIONAL for one in failed):
        way_out += "; validate_data.checks sets an expectation to warn or off"
    return (
        f"the data does not pass: {len(failed)} expectation{'s' if len(failed) > 1 else ''} failed\n"
        + "\n".join(_said(failed, rows_shown=2))
        + f"\n  offending rows: {paths.DATA_REPORT}/offending_rows.csv"
        + f"\n  Data Docs: {paths.DATA_REPORT}/{DOCS}/index.html"
        + f"\n  {way_out}"
    )
