"""Makes an earlier policy the promoted one: a flow for Prefect's pages, and a command.

    python -m flows.rollback --list | --to ID

The version's files are proven against their manifest before the pointer moves, in one step and with
history; models/policy and DVC stay as they are. The rollback after a worse run is the training flow's.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from rlhf_pipeline import errors
from rlhf_pipeline.checkpoints.release import Releases

from .notify import HOOKS
from .pipeline import as_own
from .versions import restore, versions_table


@task(name="restore", task_run_name="restore", cache_policy=NO_CACHE, persist_result=False)
def restore_version(version: str | None, reason: str) -> State[Any]:
    """Move the pointer; the state names the version."""
    try:
        found = restore(version, reason)
    except errors.PipelineError as error:
        return Failed(message=str(error))
    get_run_logger().warning("%s is the promoted policy now", found.id)
    return Completed(name="RolledBack", message=f"back to {found.id}")


@flow(name="rollback", persist_result=False, **HOOKS)
def rollback(version: str | None = None, reason: str = "asked for in Prefect") -> State[Any]:
    """Make an earlier policy the promoted one.

    Args:
        version: such as v3 or v3-1a2b3c4d; the version before the promoted one when left out.
        reason: kept in the release history.
    """
    state = restore_version(version, reason, return_state=True)
    rows = versions_table(Releases().log())
    if rows:
        create_table_artifact(rows, key="versions", description="Released policies")
    return as_own(state)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m flows.rollback", description=__doc__)
    parser.add_argument("--to", metavar="ID", help="such as v3; left out: the one before the promoted one")
    parser.add_argument("--list", action="store_true", help="show the versions and change nothing")
    parser.add_argument("--reason", default="asked for on the command line", help="kept in the history")
    given = parser.parse_args()
    if given.list:
        for row in versions_table(Releases().log()):
            print("  ".join(f"{item:.3f}" if isinstance(item, float) else str(item) for item in row.values()))
        return 0
    found = restore(given.to, given.reason)
    print(f"{found.id} is the promoted policy now")
    return 0


if __name__ == "__main__":
    sys.exit(errors.main(main))
