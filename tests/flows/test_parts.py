"""The parts of a run that need no DVC and no flow: locks, workspaces, requests, servers, notifications."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows import locks, server
from flows.inputs import changed, state_of_inputs
from flows.locks import device_places, run_locks, visible_devices
from flows.train import parse
from flows.training_run import Request
from flows.workspaces import experiment_name, forget_old_experiments, own_workspace
from rlhf_pipeline.errors import EnvironmentProblem, ParamsError
from rlhf_pipeline.params.load import read_yaml

from .cheap import set_param
from .prefect_api import Prefect


def test_the_command_line_becomes_a_request() -> None:
    request = parse(
        ["-S", "ppo.kl.loss.coef=2e-2", "-S", "tracking.experiment=null", "--gpus", "0,1", "--no-promote"]
    )
    assert request == Request(
        overrides={"ppo.kl.loss.coef": 0.02, "tracking.experiment": None}, promote=False, gpus=[0, 1]
    )
    with pytest.raises(ParamsError, match=r"-S ppo\.gamma: expected key=value"):
        parse(["-S", "ppo.gamma"])
    with pytest.raises(ParamsError, match="--gpus one"):
        parse(["--gpus", "one"])


def test_targets_are_what_dvc_is_asked_for() -> None:
    assert Request().targets == []
    assert Request(to_stage="sft").targets == ["sft"]
    assert Request(from_stage="ppo").targets == ["ppo", "evaluate", "report"]
    assert Request(from_stage="sft", to_stage="ppo").targets == ["sft", "reward_model", "judge", "ppo"]
    with pytest.raises(ParamsError, match="ppo comes after to_stage: sft"):
        Request(from_stage="ppo", to_stage="sft").check()


def test_places_on_a_machine_with_and_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_NVIDIA", tmp_path / "none")
    assert device_places(None) == ["cpu"]
    with pytest.raises(ParamsError, match="has 0 NVIDIA GPUs"):
        device_places([0])
    for number in range(4):
        (tmp_path / "gpus" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(locks, "_NVIDIA", tmp_path / "gpus")
    assert device_places(None) == ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert device_places([3, 1]) == ["gpu-1", "gpu-3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert visible_devices([3, 1]) == {"CUDA_VISIBLE_DEVICES": "5,7"}


def test_runs_on_other_gpus_go_on_beside_each_other_and_on_the_same_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        (tmp_path / "gpus" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(locks, "_NVIDIA", tmp_path / "gpus")

    def free(gpus: list[int] | None, folder: str) -> bool:
        with run_locks(tmp_path, tmp_path / folder, gpus, wait=False, on_wait=lambda reason: None) as got:
            return got

    with run_locks(tmp_path, tmp_path / "a", [0], wait=False, on_wait=lambda reason: None) as held:
        assert held
        assert free([1], "b")
        assert not free([0], "b")
        assert not free(None, "b")
        assert not free([1], "a"), "the same workspace"
    assert free(None, "a")


def test_an_experiments_workspace_has_uncommitted_changes_ignored_inputs_and_the_shared_cache(
    workspace: Path,
) -> None:
    (workspace / "stages/extra.py").write_text("x = 1\n")
    (workspace / "flows/notify.py").unlink()
    set_param(workspace, "seed", 9)
    (workspace / "data/raw/rows.jsonl").write_text("{}\n")
    before = (workspace / "params.yaml").read_bytes()
    folder = own_workspace("mine", None, {"ppo.gamma": 0.5})
    assert (folder / "stages/extra.py").is_file()
    assert not (folder / "flows/notify.py").exists()
    values = read_yaml(folder / "params.yaml")
    assert (values["seed"], values["ppo"]["gamma"]) == (9, 0.5)
    assert os.path.samefile(folder / "data/raw/rows.jsonl", workspace / "data/raw/rows.jsonl")
    assert f"dir = {workspace}/.dvc/cache" in (folder / ".dvc/config.local").read_text()
    assert (workspace / "params.yaml").read_bytes() == before
    # Brought up to date: a removed input goes, the run's own dvc.lock stays.
    (workspace / "data/raw/rows.jsonl").unlink()
    (folder / "dvc.lock").write_text("own")
    own_workspace("mine", None, {"ppo.gamma": 0.25})
    assert not (folder / "data/raw/rows.jsonl").exists()
    assert (folder / "dvc.lock").read_text() == "own"
    assert read_yaml(folder / "params.yaml")["ppo"]["gamma"] == 0.25


def test_only_the_newest_experiments_keep_their_workspace(workspace: Path) -> None:
    for number, name in enumerate(("a", "b", "c", "d", "e")):
        folder = own_workspace(name, None, {})
        os.utime(folder, (number, number))
    forget_old_experiments(keep="a")
    left = sorted(path.name for path in (workspace / ".rlhf/experiments").iterdir())
    assert left == ["a", "d", "e"]
    listed = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 4


def test_experiment_names(workspace: Path) -> None:
    assert experiment_name("lower-kl_2.0", None, {}) == "lower-kl_2.0"
    same = experiment_name(None, "tiny-cpu", {"seed": 1})
    assert same == experiment_name(None, "tiny-cpu", {"seed": 1})
    assert same != experiment_name(None, "tiny-cpu", {"seed": 2})
    for wrong in ("../up", "a b", "", "x.lock", "a..b"):
        with pytest.raises(ParamsError, match="experiment"):
            experiment_name(wrong, None, {})


def test_a_folder_without_git_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLHF_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(EnvironmentProblem, match="is not a git repository with a commit"):
        own_workspace("x", None, {})


def test_files_that_change_under_a_stage_are_noticed(workspace: Path) -> None:
    before = state_of_inputs(workspace, "sft")
    assert "params.yaml" in before
    assert "stages/sft.py" in before
    (workspace / "stages/sft.py").write_text("edited")
    (workspace / "stages/ppo.py").write_text("not this stage's")
    (workspace / "src/rlhf_pipeline/params/new.py").write_text("")
    edited = changed(before, state_of_inputs(workspace, "sft"))
    assert edited == ["src/rlhf_pipeline/params/new.py", "stages/sft.py"]


def test_a_server_named_by_the_profile_or_a_living_ui_is_used(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["PREFECT_HOME"])
    home.mkdir(parents=True)
    assert not server._profile_has_api()
    (home / "profiles.toml").write_text('active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://x/api"\n')
    assert server._profile_has_api()
    monkeypatch.setenv("PREFECT_PROFILE", "b")
    assert not server._profile_has_api()
    assert server.running_ui() is None
    server.announce_ui("http://127.0.0.1:1/api")
    assert server.running_ui() is None, "its process lives, but nothing answers"


def test_a_server_that_is_named_and_not_there_is_an_error_before_anything_starts(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.free_port()}/api")
    with pytest.raises(EnvironmentProblem, match="no Prefect server answers at PREFECT_API_URL=http"):
        server.prefect_api().__enter__()


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        with pytest.raises(EnvironmentProblem, match=f"port {port} is in use"):
            server.require_free(port, "--port")


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """An address, and what was posted to it."""
    got: list[dict[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            return

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{receiver.server_port}", got
        receiver.shutdown()


@pytest.mark.slow
def test_a_rollback_is_told_through_the_notification_block(
    workspace: Path, prefect: Prefect, webhook: tuple[str, list[dict[str, str]]]
) -> None:
    url, got = webhook
    code = f"""
from prefect.blocks.notifications import CustomWebhookNotificationBlock as Hook
message = {{"text": "{{{{subject}}}}: {{{{body}}}}"}}
Hook(name="ops", url="{url}", method="POST", json_data=message, allow_private_urls=True).save("ops")
from flows.notify import notify
notify("rollback run x: RolledBack", "back to v1")
"""
    environment = {**os.environ, "RLHF_NOTIFY_BLOCK": "custom-webhook/ops"}
    subprocess.run(["python", "-c", code], env=environment, check=True, timeout=300)
    assert got == [{"text": "rollback run x: RolledBack: back to v1"}]
