"""The judge stage: a second reward model on pairs of its own, publishing models/judge; empty without one."""

from __future__ import annotations

import sys

from rlhf_pipeline import errors
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.train.judge import run_judge


def main() -> None:
    """Run the stage in the current workspace."""
    run_judge(*load_stage("judge"))


if __name__ == "__main__":
    sys.exit(errors.main(main))
