"""After the stages: the new policy takes over, or the promoted one is restored when the new one is worse.

`python -m flows.release` does it after a plain `dvc repro`; the training flow does it by itself. Both
policies answer the same test prompts and the same judge scores them; a drop counts once it is confirmed
(checkpoints/release_rule.py). The outcome is written to reports/release.json. Imports no Prefect.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rlhf_pipeline import errors, params, paths, process, publish
from rlhf_pipeline.checkpoints.release import Releases
from rlhf_pipeline.checkpoints.release_log import Version

from .dvc_tasks import dvc_environment

KEPT_VERSIONS = 5
LOG = "release"


@dataclass(frozen=True)
class Released:
    """What the release step did."""

    action: Literal["promoted", "unchanged", "rolled_back"]
    version: str
    sentence: str
    judge: str | None = None
    new_score: float | None = None
    promoted_score: float | None = None
    drop: float | None = None
    n_prompts: int | None = None
    upper_bound: float | None = None
    """95% upper bound of mean(new - (1 - rollback.max_drop) promoted); a drop counts when it is below 0."""
    confirm: str | None = None
    made_in: str | None = None
    """Workspace, relative to the main one, that the policy was made in."""


def release(
    folder: Path | None = None,
    on_line: Callable[[str], None] = print,
    go_back: Callable[[str], Version] | None = None,
) -> Released:
    """Promote the policy of a workspace, or restore the promoted one, and write reports/release.json.

    Args:
        folder: the workspace the policy was made in; releases belong to the main workspace.
        go_back: restores the promoted policy, given the reason; the flow does it in a task of its own.

    Raises:
        CheckpointError: the policy or the promoted version is damaged.
        StageError, EnvironmentProblem: the comparison could not be made.
    """
    folder = folder or paths.workspace()
    releases = Releases(paths.workspace())
    policy = folder / paths.POLICY
    if not policy.is_dir():
        raise errors.DataError(f"{policy} does not exist: run `dvc repro` first")
    current = releases.current()
    metrics = evaluation_metrics(folder)
    if current is None:
        version = releases.promote(policy, metrics, reason="first policy", made_in=folder)
        found = Released("promoted", version.id, f"promoted as {version.id}: the first policy")
    elif current.manifest_sha256 == publish.sha256_of(policy / publish.MANIFEST):
        releases.promote(policy, metrics, made_in=folder)  # proves its files and mends the link
        found = Released("unchanged", current.id, f"{current.id} is already the promoted policy")
    else:
        found = _compared(releases, folder, policy, metrics, on_line, go_back or go_back_to_promoted)
    found = replace(found, made_in=os.path.relpath(folder, paths.workspace()))
    publish.write_json(folder / paths.RELEASE_JSON, asdict(found))
    releases.prune(KEPT_VERSIONS)
    return found


def _compared(
    releases: Releases,
    folder: Path,
    policy: Path,
    metrics: Mapping[str, float],
    on_line: Callable[[str], None],
    go_back: Callable[[str], Version],
) -> Released:
    from rlhf_pipeline.checkpoints.release_rule import compare

    current = releases.current()
    assert current is not None
    rules = params.load(folder / paths.PARAMS)
    scores = head_to_head(folder, policy, releases.policy_of(current), on_line)
    result = compare(
        scores["new"],
        scores["promoted"],
        rules.rollback.max_drop,
        confirm=rules.rollback.confirm,
        seed=rules.seed,
    )
    facts: dict[str, Any] = {
        "judge": scores["judge"],
        "new_score": result.new_score,
        "promoted_score": result.promoted_score,
        "drop": result.drop,
        "n_prompts": result.n_prompts,
        "upper_bound": result.upper_bound,
        "confirm": rules.rollback.confirm,
    }
    if result.verdict == "rollback" and rules.rollback.enabled:
        version = go_back(result.sentence)
        return Released("rolled_back", version.id, f"back to {version.id}: {result.sentence}", **facts)
    version = releases.promote(
        policy, metrics, scores_by_prompt=scores["new"], reason=result.sentence, made_in=folder
    )
    return Released("promoted", version.id, f"promoted as {version.id}: {result.sentence}", **facts)


def go_back_to_promoted(reason: str) -> Version:
    """Prove the promoted policy file by file and point everything at it again.

    Raises:
        CheckpointError: it is damaged.
    """
    return Releases(paths.workspace()).restore(reason=reason)


def head_to_head(
    folder: Path, policy: Path, promoted: Path, on_line: Callable[[str], None]
) -> dict[str, Any]:
    """Judge, and scores by prompt of both policies, from a process that loads the models."""
    out = folder / paths.SCRATCH / "release" / "comparison.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "flows.compare_policies", str(policy), str(promoted), str(out)]
    process.run(
        command,
        log=folder / paths.log(LOG),
        env=dvc_environment(folder, {}),
        cwd=folder,
        on_line=lambda line: on_line(line) if line.startswith("release: ") else None,
        name="comparison with the promoted policy",
    )
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def evaluation_metrics(folder: Path) -> dict[str, float]:
    """The figures shown beside a version: those of the evaluate stage, numbers only."""
    file = folder / paths.metrics("evaluate")
    if not file.is_file():
        return {}
    figures = json.loads(file.read_text(encoding="utf-8"))
    return {name: float(value) for name, value in figures.items() if isinstance(value, int | float)}


def main() -> int:
    found = release()
    print(found.sentence)
    return 0


if __name__ == "__main__":
    sys.exit(errors.main(main))
