"""The reward_model stage: fit models/sft to the preferences, publishing models/reward_model."""

from __future__ import annotations

import sys

from rlhf_pipeline import errors
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.train.reward_model import run_reward_model


def main() -> None:
    """Run the stage in the current workspace."""
    run_reward_model(*load_stage("reward_model"))


if __name__ == "__main__":
    sys.exit(errors.main(main))
