"""How large a PPO run is before it starts: its files, steps, models and checkpoints.

Reads footers and headers only; neither torch nor verl is imported.
"""

from __future__ import annotations

from pathlib import Path

from .. import paths
from ..checkpoints.disk import checkpoint_bytes
from ..errors import DataError, ParamsError
from ..models.weights import n_parameters
from ..params import Params
from .footprint import Sizes
from .overrides import RunPaths, uses_reward_model


def run_paths_of(params: Params, workspace: Path, scratch: Path) -> RunPaths:
    """The run's inputs in the workspace, and where below `scratch` it keeps its state."""
    return RunPaths(
        train_file=workspace / paths.table(paths.VALIDATED, "prompts", "train"),
        validation_file=workspace / paths.table(paths.VALIDATED, "prompts", "validation"),
        policy=workspace / paths.SFT_MODEL,
        reward_model=workspace / paths.REWARD_MODEL,
        critic=workspace / (paths.REWARD_MODEL if uses_reward_model(params) else paths.SFT_MODEL),
        checkpoints=scratch / "verl",
        validation_samples=scratch / "validation",
        agent_loops=scratch / "agent_loops.yaml",
        tools=workspace / (params.ppo.rollout.multi_turn.tool_config_path or "none"),
        teacher=workspace / params.ppo.distillation.teacher_path,
        profile=workspace / paths.PROFILE,
    )


def steps_of(params: Params, workspace: Path) -> tuple[int, int]:
    """PPO steps of the whole run, and the steps from one validation to the next.

    Raises:
        ParamsError: a step needs more prompts than there are.
        DataError: the prompts are missing.
    """
    train_file = workspace / paths.table(paths.VALIDATED, "prompts", "train")
    n_prompts = rows(train_file)
    steps_per_epoch = n_prompts // params.ppo.train_batch_size
    if steps_per_epoch == 0:
        raise ParamsError(
            f"ppo.train_batch_size: {params.ppo.train_batch_size} prompts a step, but {train_file} has only"
            f" {n_prompts} rows"
        )
    total_steps = params.ppo.total_epochs * steps_per_epoch
    if params.ppo.total_steps is not None:
        total_steps = min(total_steps, params.ppo.total_steps)
    every = params.ppo.validation.every
    return total_steps, steps_per_epoch if every == "epoch" else min(every, total_steps)


def rows(parquet: Path) -> int:
    """Rows of a Parquet file, from its footer.

    Raises:
        DataError: when the file is missing.
    """
    import pyarrow.parquet as pq

    if not parquet.exists():
        raise DataError(f"{parquet} does not exist; run `dvc repro validate_data` first")
    return int(pq.ParquetFile(parquet).metadata.num_rows)


def sizes_of(params: Params, run_paths: RunPaths) -> Sizes:
    """Parameters of the models that the run loads."""
    return Sizes(
        policy=n_parameters(run_paths.policy),
        critic=n_parameters(run_paths.critic) if params.ppo.adv_estimator == "gae" else 0,
        reward_model=n_parameters(run_paths.reward_model) if uses_reward_model(params) else 0,
    )


def checkpoint_of(params: Params, sizes: Sizes) -> int:
    """Expected bytes of one saved step: the actor with its export, and the critic."""
    actor = checkpoint_bytes(sizes.policy, n_trained=0 if params.ppo.lora_rank else None)
    return actor + checkpoint_bytes(sizes.critic, exported_bytes=0)
