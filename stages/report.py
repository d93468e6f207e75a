"""Stage report: reports/report.html, one self-contained page over everything the other stages left.

Reads figures, curves, samples and manifests; trains and scores nothing, and does not load torch.
"""

from __future__ import annotations

import sys

from rlhf_pipeline import errors, paths, publish
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.report.inputs import read_inputs
from rlhf_pipeline.report.page import render


def main() -> int:
    params, _ = load_stage("report")
    publish.write_text(paths.REPORT_HTML, render(read_inputs(), params))
    print(f"report: {paths.REPORT_HTML}")
    return 0


if __name__ == "__main__":
    sys.exit(errors.main(main))
