"""Released policies for people: which there are, and which one is meant when none is named. No Prefect."""

from __future__ import annotations

from typing import Any

from rlhf_pipeline import errors
from rlhf_pipeline.checkpoints.release import Releases
from rlhf_pipeline.checkpoints.release_log import ReleaseLog, Version

FIGURES = ("win_rate", "gold_policy", "judge_policy", "reward_policy")


def restore(version: str | None = None, reason: str = "asked for") -> Version:
    """Restore a version by id or number; None means the one promoted before the current one.

    Raises:
        CheckpointError: there is no such version, or a file of it does not match its manifest.
    """
    releases = Releases()
    return releases.restore(version or before_current(releases.log()), reason)


def before_current(log: ReleaseLog) -> str:
    """The kept version that was promoted last before the current one.

    Raises:
        CheckpointError: there is none.
    """
    current = log.current
    for move in reversed(log.moves):
        version = log.version(move.to_id)
        if version is not None and version.kept and version != current:
            return version.id
    raise errors.CheckpointError("there is no earlier version to go back to")


def versions_table(log: ReleaseLog) -> list[dict[str, Any]]:
    """One row for each version: id, when, whether promoted or pruned, its main figures."""
    return [
        {
            "version": version.id,
            "promoted at": version.promoted_at,
            "made in": version.made_in or "",
            "state": "promoted" if version == log.current else "kept" if version.kept else "pruned",
            **{name: version.metrics[name] for name in FIGURES if name in version.metrics},
        }
        for version in log.versions
    ]
