"""The process that drives one PPO run: `python -m rlhf_pipeline.ppo.driver`, started by launch.py.

Does what verl.trainer.main_ppo does, but runs the trainer in this process instead of a Ray actor
of its own (one process and its imports less) and ends Ray when done. Not here: configuration
(overrides.py), the training loop (trainer.py).
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from .job import FORWARDED_VARIABLE, Job
from .overrides import LOCAL_RAY


def main() -> int:
    """Run the job that RLHF_PPO_JOB names; returns the exit code."""
    job = Job.read()
    import ray
    from omegaconf import OmegaConf

    config = OmegaConf.load(job.config_file)
    start_ray(config)
    try:
        train(config)
    finally:
        ray.shutdown()
    return 0


def start_ray(config: Any) -> None:
    """Start or join the Ray cluster with verl's runtime environment."""
    import ray
    from omegaconf import OmegaConf
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    runtime_env = get_ppo_ray_runtime_env(config)
    variables = runtime_env.setdefault("env_vars", {})
    variables["TRANSFER_QUEUE_ENABLE"] = "1"
    if config.ray_kwargs.ray_init.address != LOCAL_RAY:
        # The workers of a cluster that runs already inherit its environment, not this process's.
        names = os.environ[FORWARDED_VARIABLE].split(",")
        variables |= {name: os.environ[name] for name in names}
    settings: Any = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    given = {key: value for key, value in settings.pop("runtime_env", {}).items() if value is not None}
    ray.init(runtime_env={**runtime_env, **given}, **settings)


def train(config: Any) -> None:
    """Initialise TransferQueue and the trainer, train, and close both."""
    import transfer_queue
    from omegaconf import OmegaConf
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ, get_trainer_cls
    from verl.utils.config import validate_config

    importlib.import_module("rlhf_pipeline.ppo.trainer")  # registers itself with verl
    config.transfer_queue.enable = True
    validate_config(
        config=config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config)
    )
    trainer_class = get_trainer_cls(config.trainer.v1.trainer_mode)
    OmegaConf.resolve(config)
    transfer_queue.init(config.transfer_queue)
    succeeded = False
    try:
        trainer = trainer_class(config=config)
        trainer.init()
        agent_loops = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=trainer.get_teacher_client(),
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        trainer.run(agent_loops)
        succeeded = True
    finally:
        tracking = getattr(trainer, "logger", None) if "trainer" in locals() else None
        if tracking is not None:
            tracking.finish(exit_code=0 if succeeded else 1)
        transfer_queue.close()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
