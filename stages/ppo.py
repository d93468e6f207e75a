"""The ppo stage: from models/sft to models/policy, the best step, by PPO, GRPO or a distillation.

Prepares and checks here; verl does the training in a process of its own (rlhf_pipeline.ppo.driver, or
for best-of-n distillation rlhf_pipeline.train.sft_driver).
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
from rlhf_pipeline.train.best_of_n import run_best_of_n


def main() -> None:
    """Run the stage in the current workspace."""
    started = time.monotonic()
    params, digest = load_stage("ppo")
    if params.ppo.best_of_n.enabled:
        run_best_of_n(params, digest)
        return
    plan = launch.plan(params, digest, paths.workspace())
    bound_runs(plan.scratch.parent, plan.scratch, keep_others=1)
    with PPOWatch(params, plan.job, plan.memory) as watch:
        launch.run(plan, watch.step, watch.event)
    publish_policy(plan.job, params, plan.metrics, time.monotonic() - started, watch.startup_s)


if __name__ == "__main__":
    sys.exit(errors.main(main))
