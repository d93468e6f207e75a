"""Validates data/prepared: runs the gate, writes the report, publishes the rows that later stages read.

`stop` publishes all rows or none; `quarantine` publishes the good rows, if what is left passes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import paths, publish
from ..errors import DataError
from ..params.training import ValidateData

MEMORY_GIB = 1.0
DOCS = "docs"
QUARANTINE = "quarantine"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate decided."""

    checks: int
    warnings: list[str]
    quarantined: dict[str, int]


def validate(section: ValidateData, prepared: Path, facts: Mapping[str, Any]) -> Verdict:
    """Run the gate and publish reports/data, reports/metrics/data.json and, if it holds, data/validated.

    Raises:
        DataError: when an expectation of severity error fails and quarantine cannot help.
    """
    _check_layout(prepared)
    # Great Expectations takes seconds to import, so nothing is imported before the inputs are there.
    from .gate import docs, quarantine, relations, report, run, suites

    quarantined = dict.fromkeys(paths.TABLES, 0)
    with (
        tempfile.TemporaryDirectory(prefix="rlhf-gate-") as scratch,
        publish.publishing(paths.DATA_REPORT, facts) as folder,
    ):
        gate = run.Gate(relations.relations(prepared), Path(scratch), MEMORY_GIB)
        docs.add_site(gate.context, folder / DOCS)
        outcome = gate.run(suites.suites(section))
        docs.build(gate.context)
        report.write(outcome, folder)
        remaining = outcome.failed
        if outcome.failed and section.on_error == "quarantine" and quarantine.quarantinable(outcome.failed):
            good = Path(scratch) / "good"
            quarantine.mark(gate.engine, outcome.failed)
            quarantined = quarantine.part(gate.engine, prepared, good, folder / QUARANTINE)
            again = run.Gate(relations.relations(good), Path(scratch), MEMORY_GIB)
            remaining = again.run(suites.suites(section)).failed
            prepared = good
        publish.write_json(paths.metrics("data"), report.metrics(outcome, quarantined))
        if not remaining:
            _publish_tables(prepared, facts)
    if remaining:
        raise DataError(_refusal(report.lines(remaining), section))
    return Verdict(len(outcome.findings), report.lines(outcome.warned), quarantined)


def _check_layout(prepared: Path) -> None:
    for table in paths.TABLES:
        for split in paths.SPLITS:
            path = paths.table(prepared, table, split)
            if not path.is_file():
                raise DataError(f"{path} is missing; run prepare_data (dvc repro prepare_data)")


def _publish_tables(source: Path, facts: Mapping[str, Any]) -> None:
    import shutil

    with publish.publishing(paths.VALIDATED, facts) as target:
        for table in paths.TABLES:
            (target / table).mkdir()
            for split in paths.SPLITS:
                shutil.copyfile(paths.table(source, table, split), paths.table(target, table, split))


def _refusal(failed: list[str], section: ValidateData) -> str:
    count = sum(not line.startswith(" ") for line in failed)
    way_out = (
        "validate_data.on_error: quarantine takes such rows out"
        if section.on_error == "stop"
        else "taking the rows out was not enough"
    )
    return (
        f"the data does not pass: {count} expectation{'s' if count > 1 else ''} failed\n"
        + "\n".join(f"  {line}" for line in failed)
        + f"\n  offending rows: {paths.DATA_REPORT}/offending_rows.csv"
        + f"\n  Data Docs: {paths.DATA_REPORT}/{DOCS}/index.html"
        + f"\n  {way_out}; validate_data.checks sets an expectation to warn or off"
    )
