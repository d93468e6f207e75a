"""Prepares and runs one PPO job: verl's configuration, its files and environment, the driver process.

Imports neither torch nor verl: the driver does, in a process of its own that is ended with all its
children whatever happens here.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import paths, process
from ..backend.env import worker_env
from ..backend.versions import check_versions
from ..checkpoints.book import read_book
from ..checkpoints.disk import GIB, require_run
from ..checkpoints.lock import FolderLock
from ..checkpoints.published import forget_published
from ..errors import ParamsError, StageError
from ..hardware import Device, resolve_device
from ..metrics_log import MetricsLog
from ..params import Params
from ..publish import MANIFEST, files_below, sha256_of, write_text
from ..warm.start import PPO_MODULES, warm_python
from .compose import compose
from .extent import checkpoint_of, run_paths_of, sizes_of, steps_of
from .footprint import check
from .job import EVENT_MARK, FORWARDED_VARIABLE, JOB_VARIABLE, Job
from .judging import judge_of, validation_score
from .overrides import AGENT_LOOP, TOOL_AGENT_LOOP, RunPaths, verl_config
from .teacher import require_same_vocabulary

ENGINE_DIED = "vllm.v1.engine.exceptions.EngineDeadError"
"""In a line of the driver's output: what vLLM's server says when its engine process is gone."""
INPUT_MANIFESTS = (paths.VALIDATED, paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE)


@dataclass(frozen=True)
class Plan:
    """What a run will do, computed before anything expensive starts."""

    job: Job
    scratch: Path
    device: Device
    env: dict[str, str]
    memory: str
    """What it will take of the GPUs, in words; "" on a CPU."""

    @property
    def metrics(self) -> Path:
        return self.scratch / "metrics"


def plan(params: Params, params_digest: str, workspace: Path) -> Plan:
    """Compose the configuration and write the job's files.

    Raises:
        ParamsError, DataError: for batches larger than the data, unknown verl keys, missing inputs.
    """
    device = resolve_device(params)
    check_versions()
    scratch = workspace / paths.SCRATCH / "ppo" / _digest(params, params_digest, workspace)
    forget_published(scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    run_paths = run_paths_of(params, workspace, scratch)
    total_steps, validate_every_steps = steps_of(params, workspace)
    check_files(params, run_paths)
    sizes = sizes_of(params, run_paths)
    memory = check(params, sizes) if device == "cuda" else ""
    judge = judge_of(workspace)
    config_file = scratch / "verl.yaml"
    job = Job(
        params=params.model_dump(mode="json"),
        config_file=str(config_file),
        ledger=str(scratch / "ledger"),
        params_digest=params_digest,
        device=device,
        total_steps=total_steps,
        validate_every_steps=validate_every_steps,
        validation_score=validation_score(params, run_paths.validation_file, judge),
        judge=None if judge is None else str(judge),
        checkpoint_bytes=checkpoint_of(params, sizes),
    )
    keys = verl_config(
        params, run_paths, device, total_steps, validate_every_steps, positions_of(run_paths.reward_model)
    )
    config = compose(keys, params.ppo.verl_overrides, params.hardware.strategy)
    _write_config(config, config_file)
    write_text(run_paths.agent_loops, _agent_loops())
    job.write(scratch / "job.json")
    return Plan(job, scratch, device, _reward_env(params, workspace), memory)


def run(
    planned: Plan, on_metrics: Callable[[int, dict[str, Any]], None], on_event: Callable[[str], None]
) -> None:
    """Run the driver to its end, handing on each step's metrics and each alarm, action or rollback.

    Raises:
        StageError: when the driver fails; what was committed to the ledger stays for the next run.
        CheckpointError: another process runs this job.
    """
    book, _ = read_book(Path(planned.job.ledger))
    if book is not None and book.finished is not None:
        return  # killed between training and publishing
    keep = planned.job.typed_params().ppo.checkpoints
    require_run(
        planned.scratch, planned.job.checkpoint_bytes, keep.keep_newest, int(keep.min_free_gib * GIB),
        "ppo.checkpoints.keep_newest or ppo.checkpoints.min_free_gib",
    )  # fmt: skip

    def on_line(line: str) -> None:
        if line.startswith(EVENT_MARK):
            on_event(line.removeprefix(EVENT_MARK).rstrip())
        elif ENGINE_DIED in line:
            # verl would wait for its answer for ever.
            raise StageError(
                f"a vLLM engine died; the reason is in {paths.log('ppo')}. The same command goes on from the"
                " last committed step"
            )

    log = paths.log("ppo")
    params = planned.job.typed_params()
    with (
        FolderLock(planned.scratch),
        _short_temp() as temp,
        MetricsLog(planned.metrics, on_metrics) as metrics_log,
    ):
        env = {
            **worker_env(
                planned.device,
                temp,
                single_machine=params.hardware.ray_address is None,
                attention=params.hardware.attention,
                kv_cache_gib=params.ppo.rollout.kv_cache_gib,
            ),
            **_cluster_token(params),
            **planned.env,
            JOB_VARIABLE: str(planned.scratch / "job.json"),
            "VERL_FILE_LOGGER_PATH": str(metrics_log.path),
        }
        # Each node has a temporary folder of its own.
        env[FORWARDED_VARIABLE] = ",".join(sorted(env.keys() - {"TMPDIR", "RAY_TMPDIR"}))
        with _interpreter(planned, params, temp, env) as (python, more):
            command = [python, "-m", "rlhf_pipeline.ppo.driver"]
            process.run(command, log=log, env={**env, **more}, on_line=on_line, name="ppo", grace_s=10.0)


def _cluster_token(params: Params) -> dict[str, str]:
    """A local Ray asks for a token, of this run alone, so that no other user of the machine can join it."""
    if params.hardware.ray_address is not None:
        return {}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextmanager
def _interpreter(
    planned: Plan, params: Params, temp: Path, env: dict[str, str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """A warm interpreter where forking is safe (CPU, all on this machine), else the ordinary one."""
    if planned.device == "cpu" and params.hardware.ray_address is None:
        with warm_python(temp, PPO_MODULES, env, paths.log("warm")) as warm:
            yield warm
    else:
        yield sys.executable, {}


def check_files(params: Params, run_paths: RunPaths) -> None:
    """Tools are there where they are used, and a teacher reads the policy's token ids.

    Raises:
        ParamsError: the tool file does not exist.
        DataError: the teacher is no model, or has another vocabulary.
    """
    if params.ppo.rollout.multi_turn.enabled and not run_paths.tools.is_file():
        raise ParamsError(f"ppo.rollout.multi_turn.tool_config_path: {run_paths.tools} does not exist")
    if params.ppo.distillation.enabled:
        require_same_vocabulary(run_paths.teacher, run_paths.policy)


def positions_of(model: Path) -> int | None:
    """max_position_embeddings of a model folder, None where there is no model."""
    config = model / "config.json"
    if not config.exists():
        return None
    found = json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings")
    return None if found is None else int(found)


def _digest(params: Params, params_digest: str, workspace: Path) -> str:
    """Names the run's resumable state: params and the manifests of every input."""
    parts = [params_digest]
    for folder in INPUT_MANIFESTS:
        manifest = workspace / folder / MANIFEST
        parts.append(sha256_of(manifest) if manifest.exists() else "absent")
    if params.ppo.distillation.enabled:
        parts += [sha256_of(file) for file in files_below(workspace / params.ppo.distillation.teacher_path)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _write_config(config: Any, path: Path) -> None:
    from omegaconf import OmegaConf

    write_text(path, OmegaConf.to_yaml(config))


def _agent_loops() -> str:
    module = "rlhf_pipeline.ppo.agent_loop"
    return json.dumps(
        [
            {"name": AGENT_LOOP, "_target_": f"{module}.SeededSingleTurn"},
            {"name": TOOL_AGENT_LOOP, "_target_": f"{module}.SeededTool"},
        ]
    )


def _reward_env(params: Params, workspace: Path) -> dict[str, str]:
    reward = params.ppo.reward
    if reward.source == "reward_model":
        return {"RLHF_REWARD": reward.serving, "RLHF_REWARD_MODEL": str(workspace / paths.REWARD_MODEL)}
    if reward.source == "rule":
        return {"RLHF_REWARD": f"rule:{reward.rule}"}
    function_file = workspace / str(reward.function_path)
    if not function_file.is_file():
        raise ParamsError(f"ppo.reward.function_path: {function_file} does not exist")
    return {"RLHF_REWARD": f"function:{function_file}:{reward.function_name}"}


@contextmanager
def _short_temp() -> Iterator[Path]:
    """A folder whose path is short enough for Ray's and vLLM's sockets (107 bytes), removed afterwards.

    When the job fails, Ray's own logs are kept in logs/ray/.

    One for each run: runs that share a temporary folder share socket names (every local Ray counts
    its jobs from 1).
    """
    folder = Path(tempfile.mkdtemp(prefix="rlhf-", dir=os.environ.get("RLHF_TMPDIR", "/tmp")))
    try:
        yield folder
    except StageError:
        session = folder / "ray" / "session_latest" / "logs"
        if session.exists():
            shutil.copytree(session, paths.LOGS / "ray", dirs_exist_ok=True, ignore_dangling_symlinks=True)
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
