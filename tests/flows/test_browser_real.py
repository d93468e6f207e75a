"""The walk through Prefect's pages with the real stack: minutes of training, a cancel in the middle of PPO.

RLHF_SCREENSHOTS=docs/images python -m pytest -m long tests/flows/test_browser_real.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.params import STAGE_SECTIONS

from .browser import CHROMIUM, browser
from .cheap import children, environment
from .prefect_api import eventually
from .serving import open_deployment, override, picture, serving

ROOT = Path(__file__).parents[2]
RUN_S = 1800.0
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(5400),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, home = tmp_path / "clone", tmp_path / "home"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    home.mkdir()
    monkeypatch.chdir(folder)
    for name, value in environment(folder, home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    return folder


def test_the_demo_an_override_a_cancel_in_ppo_and_a_rollback(clone: Path, tmp_path: Path) -> None:
    before = (clone / "params.yaml").read_bytes()
    with serving() as served, browser(tmp_path / "profile") as page:
        prefect = served.prefect
        page.open(f"{served.url}/deployments")
        page.wait_for("4 Deployments", "pipeline")
        picture(page, "deployments")
        idle = set(children(clone))

        demo = prefect.create_run("train/pipeline")
        page.open(f"{served.url}/runs/flow-run/{demo}")
        page.wait_for("ppo: step 5/", timeout_s=RUN_S)
        picture(page, "live")
        ended = prefect.wait(demo, "Completed", "Failed", "Crashed", timeout_s=RUN_S)
        assert ended["state_name"] == "Completed", ended["state"]["message"]
        page.open(f"{served.url}/runs/flow-run/{demo}")
        page.click("Task Runs")
        page.wait_for(*STAGE_SECTIONS, "release")
        picture(page, "run")
        page.click("Artifacts")
        page.wait_for("metrics", "summary", "ppo-curve")
        picture(page, "artifacts")
        first = os.readlink("models/promoted")

        open_deployment(page, served, "pipeline")
        override(page, '{"ppo.kl.loss.coef": 0.05}')
        page.click("View run")
        second = prefect.flow_runs()[0]
        ended = prefect.wait(second["id"], "Completed", "RolledBack", "Failed", "Crashed", timeout_s=RUN_S)
        assert ended["state_name"] in ("Completed", "RolledBack"), ended["state"]["message"]
        states = prefect.task_states(ended)
        assert (states["sft"], states["reward_model"], states["ppo"]) == ("Cached", "Cached", "Completed")
        assert (clone / "params.yaml").read_bytes() == before

        judged = prefect.create_run("evaluate/policies", policy="v1", against="models/sft")
        ended = prefect.wait(judged, "Completed", "Failed", "Crashed", timeout_s=RUN_S)
        assert ended["state"]["message"].startswith("win rate 0."), ended["state"]["message"]

        third = prefect.create_run("train/pipeline", overrides={"ppo.gamma": 0.9})
        page.open(f"{served.url}/runs/flow-run/{third}")
        page.wait_for("ppo: step 2/", timeout_s=RUN_S)
        page.click("Cancel")
        page.wait_for("Cancel Flow Run")
        page.click("Confirm")
        prefect.wait(third, "Cancelled", timeout_s=30)
        eventually(lambda: set(children(clone)) <= idle, 20, "children gone")
        page.wait_for("Cancelled")
        picture(page, "cancelled")

        resumed = prefect.create_run("train/pipeline", overrides={"ppo.gamma": 0.9}, promote=False)
        ended = prefect.wait(resumed, "Completed", "Failed", "Crashed", timeout_s=RUN_S)
        assert ended["state_name"] == "Completed", ended["state"]["message"]

        if os.readlink("models/promoted") != first:
            open_deployment(page, served, "policy")
            page.click("Quick run")
            page.click("View run")
            page.wait_for("is the promoted policy now")
            picture(page, "rollback")
        assert os.readlink("models/promoted") == first
    listed = subprocess.run([sys.executable, "-m", "dvc", "exp", "list"], capture_output=True, text=True)
    assert len(listed.stdout.split()) > 2
