"""Compares any two policies from Prefect's pages: folders, or versions such as v3 and promoted.

The work is `python -m stages.evaluate --policy ... --against ...`, outside DVC; its figures become a
table artifact. Waits like a training run for the machine to be free.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from rlhf_pipeline import paths, process
from rlhf_pipeline.checkpoints.release import Releases
from rlhf_pipeline.errors import CheckpointError, DataError, PipelineError

from .dvc_tasks import dvc_environment
from .locks import run_locks, visible_devices
from .notify import HOOKS
from .pipeline import as_own, follow_worker
from .watch import Api, Orders


def policy_folder(name: str) -> Path:
    """A version (v3, v3-1a2b3c4d, promoted) or a folder below the workspace.

    Raises:
        DataError: there is neither.
    """
    releases = Releases()
    if name == "promoted":
        current = releases.current()
        if current is None:
            raise DataError("promoted: no policy was ever promoted")
        return releases.policy_of(current)
    folder = paths.workspace() / name
    if folder.is_dir():
        return folder
    try:
        return releases.policy_of(releases.find(name))
    except CheckpointError as error:
        raise DataError(f"{name} is no folder of this workspace; {error}") from None


@task(name="compare", task_run_name="compare", cache_policy=NO_CACHE, persist_result=False)
def compare(policy: str, against: str, gpus: list[int] | None) -> State[Any]:
    """Run the comparison in a process of its own and show its figures."""
    logger = get_run_logger()
    orders = Orders(UUID(str(flow_run.get_id())), Api())
    home = paths.workspace()
    out = home / paths.SCRATCH / "compare" / f"{flow_run.get_id()}.json"
    said: list[str] = []

    def on_wait(reason: str) -> None:
        if reason not in said:
            said.append(reason)
            logger.info(reason)
        orders.obey()

    try:
        sides = [str(policy_folder(name)) for name in (policy, against)]
        out.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "stages.evaluate", "--policy", sides[0], "--against", sides[1]]
        with run_locks(home, home, gpus, wait=True, on_wait=on_wait):
            process.run(
                [*command, "--out", str(out)],
                log=home / paths.log("compare"),
                env=dvc_environment(home, visible_devices(gpus)),
                cwd=home,
                on_line=logger.info,
                name="comparison",
            )
    except PipelineError as error:
        return Failed(message=str(error))
    figures = json.loads(out.read_text(encoding="utf-8"))
    rows = [{"metric": name, "value": value} for name, value in figures.items()]
    create_table_artifact(rows, key="comparison", description=f"{policy} against {against}")
    return Completed(message=f"win rate {figures['win_rate']:.3f} of {policy} over {against}")


@flow(name="evaluate", persist_result=False, **HOOKS)
def evaluate(
    policy: str = "models/policy", against: str = "promoted", gpus: list[int] | None = None
) -> State[Any]:
    """Compare two policies on the test prompts.

    Args:
        policy: a folder such as models/policy, or a version such as v3 or promoted.
        against: the other one.
        gpus: indices of the GPUs to use; all of them when left out.
    """
    follow_worker()
    return as_own(compare(policy, against, gpus, return_state=True))
