"""A DVC remote in a local folder: push, pull into a fresh clone, and nothing is left to run."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .cheap import set_param

STAGES = 9
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def dvc(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "RLHF_WORKSPACE": str(folder), "PYTHONPATH": f"{folder}/src:{folder}"}
    done = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(folder: Path, *arguments: str) -> None:
    author = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def objects(store: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in store.rglob("*") if path.is_file()}


def test_a_fresh_clone_pulls_everything_and_runs_nothing(workspace: Path, tmp_path: Path) -> None:
    store, clone = tmp_path / "store", tmp_path / "fresh/clone"
    dvc(workspace, "repro")
    dvc(workspace, "remote", "add", "--default", "store", str(store))
    dvc(workspace, "push")
    git(workspace, "add", "dvc.lock", ".dvc/config")
    git(workspace, "commit", "-m", "run")
    git(tmp_path, "clone", str(workspace), str(clone))
    dvc(clone, "pull")
    said = dvc(clone, "repro")
    assert said.count("didn't change, skipping") == STAGES
    assert "Running stage" not in said
    for model in ("sft", "reward_model", "policy"):
        made = workspace / "models" / model / "made.txt"
        assert (clone / "models" / model / "made.txt").read_bytes() == made.read_bytes()
    assert "up to date" in dvc(clone, "status")


def test_what_is_equal_is_stored_once(workspace: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    dvc(workspace, "repro")
    dvc(workspace, "remote", "add", "--default", "store", str(store))
    dvc(workspace, "push")
    first = objects(store)
    set_param(workspace, "ppo.kl.loss.coef", 0.3)
    dvc(workspace, "repro")
    dvc(workspace, "push")
    added = objects(store).keys() - first.keys()
    contents = {path.read_bytes() for path in added}
    assert (workspace / "models/policy/made.txt").read_bytes() in contents
    assert (workspace / "models/sft/made.txt").read_bytes() not in contents, "it did not change"
    shutil.rmtree(workspace / "models")
    dvc(workspace, "checkout")
    assert (workspace / "models/sft/made.txt").exists()


S3 = importlib.util.find_spec("dvc_s3") is not None and importlib.util.find_spec("moto") is not None


@pytest.mark.skipif(not S3, reason="dvc-s3 and moto are not installed")
def test_an_s3_store_serves_a_fresh_clone(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        import boto3

        boto3.client("s3", endpoint_url=address).create_bucket(Bucket="rlhf")
        dvc(workspace, "repro")
        dvc(workspace, "remote", "add", "--default", "store", "s3://rlhf/experiments")
        dvc(workspace, "remote", "modify", "store", "endpointurl", address)
        dvc(workspace, "push")
        git(workspace, "add", "dvc.lock", ".dvc/config")
        git(workspace, "commit", "-m", "run")
        clone = tmp_path / "fresh/clone"
        git(tmp_path, "clone", str(workspace), str(clone))
        dvc(clone, "pull")
        assert dvc(clone, "repro").count("didn't change, skipping") == STAGES
    finally:
        server.stop()
