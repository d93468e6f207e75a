"""One real `dvc repro`, read stage by stage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.dvc_tasks import Outcome, Repro
from rlhf_pipeline.errors import StageError
from rlhf_pipeline.params import STAGE_SECTIONS

from .cheap import behave, set_param

STAGES = list(STAGE_SECTIONS)


def outcomes(*targets: str, single: bool = False) -> dict[str, Outcome]:
    with Repro(targets, single=single) as repro:
        return {stage: repro.play(stage) for stage in repro.stages()}


def statuses(*targets: str, single: bool = False) -> dict[str, str]:
    return {stage: outcome.status for stage, outcome in outcomes(*targets, single=single).items()}


def test_stages_run_then_are_unchanged_then_only_what_a_parameter_touches_runs(workspace: Path) -> None:
    assert statuses() == dict.fromkeys(STAGES, "ran")
    assert statuses() == dict.fromkeys(STAGES, "unchanged")
    text = (workspace / "params.yaml").read_text()
    set_param(workspace, "ppo.kl.loss.coef", 0.07)
    after = dict.fromkeys(STAGES, "unchanged") | dict.fromkeys(["ppo", "evaluate", "report"], "ran")
    assert statuses() == after
    (workspace / "params.yaml").write_text(text)
    # Back to the first params: DVC has that run and restores it.
    assert statuses()["ppo"] == "restored"


def test_a_target_ends_the_chain_and_single_runs_one_stage(workspace: Path) -> None:
    assert list(statuses("prepare_data")) == ["prepare_data"]
    assert statuses("base_model", "prepare_data", single=True) == {
        "base_model": "ran",
        "prepare_data": "unchanged",
    }


def test_output_is_handed_on_without_dvcs_own_lines(workspace: Path) -> None:
    lines: list[str] = []
    with Repro(["base_model"]) as repro:
        for stage in repro.stages():
            repro.play(stage, lines.append)
    assert lines == [
        "base_model: started",
        "base_model: step 1/4  reward 0.25",
        "base_model: step 4/4  reward 1",
        *lines[3:],
    ]
    assert len(lines) == 4


def test_a_users_error_is_the_reason_and_is_not_infrastructure(workspace: Path) -> None:
    behave(workspace, base_model={"error": "row 7 of data/raw/x.jsonl: no prompt\n  more"})
    found = outcomes()["base_model"]
    assert (found.status, found.reason, found.infrastructure) == (
        "failed",
        "row 7 of data/raw/x.jsonl: no prompt",
        False,
    )


def test_a_bug_shows_its_exception(workspace: Path) -> None:
    behave(workspace, base_model={"crash": "list index out of range"})
    found = outcomes()["base_model"]
    assert (found.reason, found.infrastructure) == ("RuntimeError: list index out of range", False)


def test_a_missing_dependency_is_the_stages_failure(workspace: Path) -> None:
    (workspace / "stages/base_model.py").unlink()
    found = outcomes("base_model")["base_model"]
    assert (found.status, found.infrastructure) == ("failed", False)
    assert "stages/base_model.py" in found.reason


def test_a_killed_stage_is_infrastructure(workspace: Path) -> None:
    behave(workspace, base_model={"once_killed": str(workspace / "killed")})
    found = outcomes()["base_model"]
    assert found.infrastructure
    assert found.reason.startswith(
        ("the stage was killed (exited with -9)", "the stage was killed (exited with 137)")
    )


def test_a_broken_dvc_yaml_is_an_error_of_no_stage(workspace: Path) -> None:
    (workspace / "dvc.yaml").write_text("stages: [")
    with pytest.raises(StageError, match=r"dvc\.yaml"):
        outcomes()


def test_a_second_dvc_in_the_workspace_is_named(workspace: Path) -> None:
    behave(workspace, base_model={"sleep_s": 20})
    with Repro(["base_model"]) as first:
        next(first.stages())
        found = outcomes("base_model")["base_model"]
    assert found.infrastructure
    assert "another dvc works in this workspace" in found.reason


def test_nothing_is_left_and_the_lock_is_free_after_an_exception(workspace: Path) -> None:
    behave(workspace, base_model={"sleep_s": 60})

    def interrupt(line: str) -> None:
        if "sleeping" in line:
            raise KeyboardInterrupt

    def run() -> None:
        with Repro(["base_model"]) as repro:
            for stage in repro.stages():
                repro.play(stage, interrupt)

    with pytest.raises(KeyboardInterrupt):
        run()
    behave(workspace)
    assert statuses("base_model") == {"base_model": "ran"}
    assert json.loads((workspace / ".dvc/tmp/rwlock").read_text()) in ({}, {"read": {}, "write": {}})
