"""Stage validate_data: nothing is trained on data that the gate has not passed.

Reads data/prepared and the tokenizer of models/base; publishes data/validated and reports/data.
"""

from __future__ import annotations

import sys

from rlhf_pipeline import errors, paths
from rlhf_pipeline.data.validate import validate
from rlhf_pipeline.params.load import load_stage


def main() -> int:
    params, digest = load_stage("validate_data")
    facts = {"stage": "validate_data", "params": digest}
    verdict = validate(params, paths.PREPARED, paths.BASE_MODEL, facts)
    for warning in verdict.warnings:
        print(f"warning: {warning}")
    for what, rows_per_s in verdict.speeds.items():
        print(f"{what}: {rows_per_s:,.0f} rows/s")
    taken = sum(verdict.quarantined.values())
    aside = f", {taken:,} rows quarantined in {paths.DATA_REPORT}/quarantine" if taken else ""
    print(f"data: {verdict.expectations} expectations evaluated, {len(verdict.warnings)} warnings{aside}")
    print(f"Data Docs: {paths.DATA_REPORT}/docs/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(errors.main(main))
