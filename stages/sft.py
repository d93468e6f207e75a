"""The sft stage: fine-tune models/base on the demonstrations, publishing the best step as models/sft."""

from __future__ import annotations

import sys

from rlhf_pipeline import errors
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.train.sft import run_sft


def main() -> None:
    """Run the stage in the current workspace."""
    run_sft(*load_stage("sft"))


if __name__ == "__main__":
    sys.exit(errors.main(main))
