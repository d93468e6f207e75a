"""The training flow on real Prefect and DVC: states, reasons, release, overrides. Its stages are cheap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rlhf_pipeline.params import STAGE_SECTIONS

from .cheap import behave, set_param
from .prefect_api import Prefect

STAGES = list(STAGE_SECTIONS)


def train(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows.train", *arguments], capture_output=True, text=True, timeout=400
    )


def test_states_release_and_artifacts_of_a_run_and_of_one_with_nothing_to_do(
    workspace: Path, prefect: Prefect
) -> None:
    behave(workspace, sft={"lines": 100})
    first = train()
    assert first.returncode == 0, first.stdout + first.stderr
    assert "release: promoted as v1-" in first.stdout
    assert "reports/report.html" in first.stdout
    run = prefect.flow_runs()[0]
    assert run["state_name"] == "Completed"
    assert prefect.task_states(run) == dict.fromkeys([*STAGES, "release"], "Completed")
    artifacts = prefect.artifacts(run)
    assert {"metrics", "summary", "ppo-curve", "sft-progress"} <= artifacts.keys()
    assert artifacts["ppo-curve"].startswith("data:image/png;base64,")
    assert "reports/report.html" in artifacts["summary"]
    told = [line for line in prefect.logs(run) if line.startswith("line ")]
    assert 10 <= len(told) <= 20
    assert any("more lines in" in line for line in prefect.logs(run))
    assert (workspace / "models/promoted/made.txt").is_file()
    assert not list((workspace / ".rlhf/flow_runs").iterdir())

    again = train()
    assert again.returncode == 0
    run = prefect.flow_runs()[0]
    assert prefect.task_states(run) == dict.fromkeys(STAGES, "Cached") | {"release": "Completed"}
    assert "already the promoted policy" in again.stdout


def test_what_dvc_ran_is_cached_in_the_flow_and_the_reverse(workspace: Path, prefect: Prefect) -> None:
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "repro", "-q", "prepare_data"], check=True)
    assert train("--to-stage", "validate_data").returncode == 0
    states = prefect.task_states(prefect.flow_runs()[0])
    assert states == {"base_model": "Completed", "prepare_data": "Cached", "validate_data": "Completed"}
    output = subprocess.run([*dvc, "status", "validate_data"], capture_output=True, text=True, check=True)
    assert "up to date" in output.stdout


def test_a_failed_stage_fails_the_run_with_its_reason_and_is_not_tried_again(
    workspace: Path, prefect: Prefect
) -> None:
    behave(workspace, prepare_data={"error": "data/raw/x.jsonl row 7: no prompt"})
    result = train("--to-stage", "validate_data")
    assert result.returncode == 2
    assert result.stderr.strip() == "error: prepare_data: data/raw/x.jsonl row 7: no prompt"
    run = prefect.flow_runs()[0]
    assert (run["state_name"], run["state"]["message"]) == (
        "Failed",
        "prepare_data: data/raw/x.jsonl row 7: no prompt",
    )
    states = prefect.task_states(run)
    assert states.pop("prepare_data") == "Failed"
    # DVC's order of stages that do not depend on one another is its own.
    assert states in ({}, {"base_model": "Completed"})
    assert result.stdout.count("prepare_data: started") == 1


def test_a_stage_killed_by_the_machine_is_tried_once_more(workspace: Path, prefect: Prefect) -> None:
    behave(workspace, prepare_data={"once_killed": str(workspace / "killed")})
    result = train("--to-stage", "validate_data")
    assert result.returncode == 0, result.stdout + result.stderr
    states = prefect.task_states(prefect.flow_runs()[0])
    assert states == dict.fromkeys(("base_model", "prepare_data", "validate_data"), "Completed")
    assert result.stdout.count("prepare_data: started") == 2


def test_a_worse_policy_is_rolled_back_and_a_better_one_promoted(workspace: Path, prefect: Prefect) -> None:
    assert train().returncode == 0
    promoted = os.readlink(workspace / "models/promoted")
    prompts = [f"p{number}" for number in range(50)]
    scores = {"new": dict.fromkeys(prompts, 0.4), "promoted": dict.fromkeys(prompts, 0.6)}
    behave(workspace, ppo={"made": "worse"}, compare=scores)
    set_param(workspace, "ppo.kl.loss.coef", 0.07)
    worse = train()
    assert worse.returncode == 0, worse.stdout + worse.stderr
    run = prefect.flow_runs()[0]
    assert run["state_name"] == "RolledBack"
    assert prefect.task_states(run)["release"] == "RolledBack"
    assert prefect.task_states(run)["rollback"] == "Completed"
    assert "new policy 0.400, promoted policy 0.600" in run["state"]["message"]
    assert os.readlink(workspace / "models/promoted") == promoted
    found = json.loads((workspace / "reports/release.json").read_text())
    assert (found["action"], found["confirm"], found["made_in"]) == ("rolled_back", "paired_bootstrap", ".")
    assert found["upper_bound"] < 0
    # The same policy by another judgement: released by the command that follows a plain `dvc repro`.
    scores["new"] = dict.fromkeys(prompts, 0.7)
    behave(workspace, compare=scores)
    better = subprocess.run([sys.executable, "-m", "flows.release"], capture_output=True, text=True)
    assert better.returncode == 0, better.stderr
    assert "promoted as v2-" in better.stdout
    assert os.readlink(workspace / "models/promoted") != promoted


def test_an_override_has_its_own_workspace_and_leaves_params_alone(workspace: Path, prefect: Prefect) -> None:
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    before = {name: (workspace / name).read_bytes() for name in ("params.yaml", "dvc.lock")}
    (workspace / "data/raw/mine.jsonl").write_text("{}")
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    before["dvc.lock"] = (workspace / "dvc.lock").read_bytes()
    result = train("-S", "ppo.kl.loss.coef=0.07", "--experiment", "strong-kl", "--no-promote")
    assert result.returncode == 0, result.stdout + result.stderr
    assert {name: (workspace / name).read_bytes() for name in before} == before
    states = prefect.task_states(prefect.flow_runs()[0])
    ran = dict.fromkeys(("ppo", "evaluate", "report"), "Completed")
    assert states == dict.fromkeys(STAGES, "Cached") | ran
    own = workspace / ".rlhf/experiments/strong-kl"
    assert json.loads((own / "reports/metrics/ppo.json").read_text())["kl_loss_coef"] == 0.07
    assert (own / "data/raw/mine.jsonl").is_file()
    listed = subprocess.run([sys.executable, "-m", "dvc", "exp", "list"], capture_output=True, text=True)
    assert "strong-kl" in listed.stdout
    assert not (workspace / "models/promoted").exists()


def test_wrong_params_are_refused_before_anything_starts(workspace: Path, prefect: Prefect) -> None:
    known = len(prefect.flow_runs())
    result = train("-S", "ppo.kl.loss.coef=much", "-S", "ppo.gama=1")
    assert result.returncode == 2
    assert "ppo.kl.loss.coef: should be a valid number, got 'much'" in result.stderr
    assert "ppo.gama: unknown key" in result.stderr
    assert len(prefect.flow_runs()) == known
    assert not (workspace / "logs").exists()


def test_without_a_server_the_run_brings_its_own(workspace: Path) -> None:
    result = train("--to-stage", "base_model")
    assert (result.returncode, result.stderr) == (0, "")
    assert (workspace / ".rlhf/prefect.db").is_file()
    assert "base_model: step 4/4" in result.stdout
