"""The ppo stage: KL-regularised PPO (or GRPO) from models/sft, publishing the best step as models/policy.

Prepares and checks here; verl does the training in a process of its own (rlhf_pipeline.ppo.driver).
A killed run continues from `.scratch/ppo/` when the same command is given again.
"""

from __future__ import annotations

import sys
import time

from rlhf_pipeline import errors, paths
from rlhf_pipeline.checkpoints.retention import bound_runs
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.ppo import launch
from rlhf_pipeline.ppo.outcome import publish_policy
from rlhf_pipeline.ppo.watch import PPOWatch


def main() -> None:
    """Run the stage in the current workspace."""
    started = time.monotonic()
    params, digest = load_stage("ppo")
    plan = launch.plan(params, digest, paths.workspace())
    bound_runs(plan.scratch.parent, plan.scratch, keep_others=1)
    with PPOWatch(params, plan.job) as watch:
        launch.run(plan, watch.step, watch.event)
    publish_policy(plan.job, params, plan.metrics, time.monotonic() - started, watch.startup_s)


if __name__ == "__main__":
    sys.exit(errors.main(main))
