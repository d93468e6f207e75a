"""The walk of a user through Prefect's pages, in a real browser: run, watch, cancel, roll back.

RLHF_SCREENSHOTS=FOLDER keeps pictures of the pages. test_browser_real.py does it with real stages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlhf_pipeline.params import STAGE_SECTIONS

from .browser import CHROMIUM, browser
from .cheap import behave, children, in_stage, prepared
from .prefect_api import eventually
from .serving import open_deployment, override, picture, serving

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@pytest.fixture
def workspace(pristine: Path, tmp_path: Path) -> Iterator[Path]:
    with prepared(pristine, tmp_path) as folder:
        yield folder


def test_run_with_an_override_watch_it_cancel_another_and_roll_back(workspace: Path, tmp_path: Path) -> None:
    before = (workspace / "params.yaml").read_bytes()
    with serving() as served, browser(tmp_path / "profile") as page:
        prefect = served.prefect
        page.open(f"{served.url}/deployments")
        page.wait_for("4 Deployments", "nightly", "pipeline", "policies", "policy")
        picture(page, "deployments")

        open_deployment(page, served, "pipeline")
        page.click("Quick run")
        page.click("View run")
        page.wait_for("promoted as v1-")
        first = eventually(
            lambda: (workspace / "models/promoted").exists() and os.readlink("models/promoted")
        )

        scores = {"new": {"a": 0.7, "b": 0.7}, "promoted": {"a": 0.6, "b": 0.6}}
        behave(workspace, ppo={"made": "other"}, compare=scores)
        open_deployment(page, served, "pipeline")
        override(page, '{"ppo.kl.loss.coef": 0.07}')
        page.click("View run")
        page.wait_for("promoted as v2-")
        run = prefect.flow_runs()[0]
        prefect.wait(run["id"], "Completed")
        assert run["parameters"]["overrides"] == {"ppo.kl.loss.coef": 0.07}
        assert prefect.task_states(run)["sft"] == "Cached"
        assert (workspace / "params.yaml").read_bytes() == before
        page.open(f"{served.url}/runs/flow-run/{run['id']}")
        page.click("Artifacts")
        page.wait_for("metrics", "summary", "ppo-curve")
        picture(page, "artifacts")
        page.click("Task Runs")
        page.wait_for(*STAGE_SECTIONS, "release")
        picture(page, "run")

        behave(workspace, ppo={"sleep_s": 300, "daemon_s": 300, "made": "third"})
        (workspace / "params.yaml").write_bytes(before.replace(b"seed: 7", b"seed: 8"))
        idle = set(children(workspace))
        open_deployment(page, served, "pipeline")
        page.click("Quick run")
        page.click("View run")
        eventually(lambda: in_stage(workspace, "ppo"), 180, "in the middle of ppo")
        page.click("Cancel")
        page.wait_for("Cancel Flow Run")
        page.click("Confirm")
        cancelled = prefect.flow_runs()[0]
        prefect.wait(cancelled["id"], "Cancelled", timeout_s=30)
        eventually(lambda: set(children(workspace)) <= idle, 20, "children gone")
        page.wait_for("Cancelled")
        picture(page, "cancelled")

        assert os.readlink("models/promoted") != first
        open_deployment(page, served, "policy")
        page.click("Quick run")
        page.click("View run")
        page.wait_for("is the promoted policy now")
        back = prefect.flow_runs()[0]
        prefect.wait(back["id"], "RolledBack")
        page.wait_for("RolledBack")
        picture(page, "rollback")
        assert os.readlink("models/promoted") == first
