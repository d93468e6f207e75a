"""What a user does on Prefect's pages, without the browser; one `make ui` serves all of these tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rlhf_pipeline.params import STAGE_SECTIONS

from .cheap import behave, children, in_stage, prepared
from .prefect_api import eventually
from .serving import Served, serving

GONE_WITHIN_S = 20.0


@pytest.fixture(scope="module")
def workspace(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One workspace for the module, its environment set while the module runs."""
    with prepared(pristine, tmp_path_factory.mktemp("served")) as folder:
        yield folder


@pytest.fixture(scope="module")
def served(workspace: Path) -> Iterator[Served]:
    with serving() as found:
        yield found


@pytest.mark.slow
def test_wrong_parameters_fail_with_the_command_lines_message(workspace: Path, served: Served) -> None:
    prefect = served.prefect
    run = prefect.wait(
        prefect.create_run("train/pipeline", overrides={"ppo.gama": 1.0}), "Failed", "Crashed", "Completed"
    )
    assert "ppo.gama: unknown key" in run["state"]["message"]
    with pytest.raises(httpx.HTTPStatusError, match=r"422|409"):
        prefect.create_run("train/pipeline", to_stage="no-such-stage")
    back = prefect.wait(prefect.create_run("rollback/policy", version="v9"), "Failed", "RolledBack")
    assert "there is no version 'v9'" in back["state"]["message"]
    compared = prefect.wait(prefect.create_run("evaluate/policies", policy="data"), "Failed", "Completed")
    assert "no policy was ever promoted" in compared["state"]["message"]


@pytest.mark.slow
def test_a_run_with_an_override_then_a_rollback(workspace: Path, served: Served) -> None:
    prefect = served.prefect
    before = (workspace / "params.yaml").read_bytes()
    main = prefect.wait(prefect.create_run("train/pipeline"), "Completed", "Failed", "Crashed")
    assert main["state_name"] == "Completed", main["state"]["message"]
    first = os.readlink(workspace / "models/promoted")
    scores = {"new": {"a": 0.7, "b": 0.7}, "promoted": {"a": 0.6, "b": 0.6}}
    behave(workspace, ppo={"made": "other"}, compare=scores)
    asked = prefect.create_run("train/pipeline", overrides={"ppo.kl.loss.coef": 0.07})
    run = prefect.wait(asked, "Completed", "Failed", "Crashed")
    assert run["state_name"] == "Completed", run["state"]["message"]
    assert (workspace / "params.yaml").read_bytes() == before
    assert prefect.task_states(run) == dict.fromkeys(STAGE_SECTIONS, "Cached") | dict.fromkeys(
        ("ppo", "evaluate", "report", "release"), "Completed"
    )
    link = prefect.artifacts(run)["summary"].partition("](")[2].partition(")")[0]
    assert link.startswith(served.reports)
    assert httpx.get(link).status_code == 200
    for secret in ("params.yaml", ".git/config", "reports/../params.yaml"):
        assert httpx.get(f"{served.reports}/{secret}").status_code == 404
    assert os.readlink(workspace / "models/promoted") != first
    back = prefect.wait(prefect.create_run("rollback/policy"), "RolledBack", "Failed")
    assert back["state_name"] == "RolledBack"
    assert os.readlink(workspace / "models/promoted") == first
    assert "v1-" in prefect.artifacts(back)["versions"]


@pytest.mark.slow
def test_cancelling_on_the_page_ends_everything(workspace: Path, served: Served) -> None:
    behave(workspace, prepare_data={"sleep_s": 300, "daemon_s": 300})
    prefect = served.prefect
    before = children(workspace)
    asked = prefect.create_run("train/pipeline", overrides={"seed": 1}, experiment="cancelled")
    eventually(lambda: in_stage(workspace / ".rlhf/experiments/cancelled"))
    prefect.cancel(asked)
    prefect.wait(asked, "Cancelled", timeout_s=GONE_WITHIN_S)
    eventually(lambda: set(children(workspace)) <= set(before), GONE_WITHIN_S, "children gone")
    behave(workspace)
    again = prefect.create_run(
        "train/pipeline", overrides={"seed": 1}, experiment="cancelled", to_stage="prepare_data"
    )
    run = prefect.wait(again, "Completed", "Failed")
    assert run["state_name"] == "Completed", run["state"]["message"]


@pytest.mark.slow
def test_killing_the_serving_process_ends_its_runs(workspace: Path, served: Served) -> None:
    behave(workspace, prepare_data={"sleep_s": 300, "daemon_s": 300})
    served.prefect.create_run("train/pipeline", overrides={"seed": 2}, experiment="killed")
    eventually(lambda: in_stage(workspace / ".rlhf/experiments/killed"))
    served.process.kill()
    served.process.wait()
    eventually(lambda: not children(workspace), GONE_WITHIN_S, "children gone")
