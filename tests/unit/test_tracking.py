"""Every backend gets the same names and numbers, and none of them can stop a stage."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import params as params_module
from rlhf_pipeline import paths, publish, tracking_runs
from rlhf_pipeline.errors import EnvironmentProblem
from rlhf_pipeline.params import Params
from rlhf_pipeline.tracking import Tracker, run_group
from rlhf_pipeline.tracking_backends import flatten

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLHF_WORKSPACE", str(tmp_path))
    monkeypatch.delenv("RLHF_RUN_GROUP", raising=False)
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    return tmp_path


def params(**tracking: Any) -> Params:
    overrides = {f"tracking.{key}": value for key, value in tracking.items()}
    return params_module.load(REPOSITORY / "params.yaml", overrides)


def track(chosen: Params) -> None:
    with Tracker(chosen, "ppo") as tracker:
        tracker.log(1, {"reward/mean": 0.5, "kl": float("nan")})
        tracker.log(2, {"reward/mean": 0.75})
        tracker.event(2, "rollback", "back to step 1")
        tracker.summary({"gold": 0.25})


def json_lines(workspace: Path, group: str) -> list[dict[str, Any]]:
    text = (workspace / "logs/tracking" / group / "ppo.jsonl").read_text()
    return [
        {key: value for key, value in json.loads(line).items() if key != "time"} for line in text.splitlines()
    ]


def test_json_lines(workspace: Path) -> None:
    track(params(backends=["jsonl"], experiment="mine"))
    start, *rest = json_lines(workspace, "mine")
    assert start["start"] == "ppo"
    assert start["config"]["ppo"]["gamma"] == 1.0
    assert rest == [
        {"step": 1, "reward/mean": 0.5},
        {"step": 2, "reward/mean": 0.75},
        {"step": 2, "event": "rollback", "text": "back to step 1"},
        {"end": "finished", "gold": 0.25},
    ]


def test_a_failed_stage_is_tracked_as_failed(workspace: Path) -> None:
    with pytest.raises(KeyError), Tracker(params(backends=["jsonl"], experiment="mine"), "ppo"):
        raise KeyError
    assert json_lines(workspace, "mine")[-1] == {"end": "failed"}


def test_tensorboard_holds_the_same_names(workspace: Path) -> None:
    track(params(backends=["tensorboard"], experiment="mine"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(workspace / "logs/tracking/tensorboard/mine/ppo"))
    events.Reload()
    assert events.Tags()["scalars"] == ["reward/mean", "event/rollback"]
    assert [(item.step, item.value) for item in events.Scalars("reward/mean")] == [(1, 0.5), (2, 0.75)]


def test_wandb_offline_and_json_lines_together(workspace: Path) -> None:
    track(params(backends=["wandb", "jsonl"], experiment="mine"))
    [file] = (workspace / "logs/tracking/wandb").glob("offline-run-*/run-*.wandb")
    recorded = file.read_bytes()  # protobuf records: strings lie in them as they are
    for text in (b"reward/mean", b"0.75", b"event/rollback", b"mine-ppo", b"rlhf-pipeline", b"gold"):
        assert text in recorded
    assert json_lines(workspace, "mine")[1] == {"step": 1, "reward/mean": 0.5}


def test_a_backend_that_cannot_write_is_dropped_and_the_others_go_on(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "logs/tracking").mkdir(parents=True)
    (workspace / "logs/tracking/tensorboard").write_text("a file where a folder should be")
    track(params(backends=["tensorboard", "jsonl"], experiment="mine"))
    assert "tracking: tensorboard is off, training goes on: NotADirectoryError" in capsys.readouterr().err
    assert json_lines(workspace, "mine")[-1] == {"end": "finished", "gold": 0.25}


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is not None, reason="mlflow is installed")
def test_a_backend_that_is_not_installed_is_named_before_anything_starts() -> None:
    with pytest.raises(EnvironmentProblem, match=r"tracking\.backends: mlflow is not installed"):
        Tracker(params(backends=["mlflow"]), "sft")


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_holds_the_same_names(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track(params(backends=["mlflow"], experiment="mine"))
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{workspace / 'logs/tracking/mlflow.db'}")
    experiment = client.get_experiment_by_name("rlhf-pipeline")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.status, run.data.tags["group"]) == ("FINISHED", "mine")
    history = client.get_metric_history(run.info.run_id, "reward/mean")
    assert sorted((item.step, item.value) for item in history) == [(1, 0.5), (2, 0.75)]


INSTALLED = [
    name
    for name in ("wandb", "jsonl", "tensorboard", "mlflow")
    if name == "jsonl" or importlib.util.find_spec(name) is not None
]


def killed(chosen: Params, steps: range) -> None:
    """A stage that ends without a word: what it had tracked is written, nothing is finished."""
    tracker = Tracker(chosen, "ppo")
    tracker.__enter__()
    for step in steps:
        tracker.log(step, {"reward/mean": step / 8})
    while not tracker._work.empty():
        time.sleep(0.01)


def test_every_installed_backend_gets_the_same_names_together(workspace: Path) -> None:
    track(params(backends=INSTALLED, experiment="mine"))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(workspace / "logs/tracking/tensorboard/mine/ppo"))
    events.Reload()
    lines = [line for line in json_lines(workspace, "mine") if "reward/mean" in line]
    board = [(item.step, item.value) for item in events.Scalars("reward/mean")]
    assert board == [(line["step"], line["reward/mean"]) for line in lines] == [(1, 0.5), (2, 0.75)]
    [file] = (workspace / "logs/tracking/wandb").glob("offline-run-*/run-*.wandb")
    assert b"reward/mean" in file.read_bytes()


def test_a_killed_stage_goes_on_with_its_run_and_repeats_no_step(workspace: Path) -> None:
    chosen = params(backends=["jsonl", "tensorboard"], experiment="mine")
    killed(chosen, range(1, 5))
    with Tracker(chosen, "ppo") as tracker:
        for step in (3, 4, 5, 4, 5, 6):  # from the checkpoint at 2; at 5 a rollback to 3
            tracker.log(step, {"reward/mean": step / 8})
    lines = json_lines(workspace, "mine")
    assert [line["step"] for line in lines if "step" in line] == [1, 2, 3, 4, 5, 4, 5, 6]
    assert [next(iter(line)) for line in lines if "run" in line] == ["start", "resume"]
    assert len({line["run"] for line in lines if "run" in line}) == 1
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(workspace / "logs/tracking/tensorboard/mine/ppo"))
    events.Reload()
    assert [item.step for item in events.Scalars("reward/mean")] == [1, 2, 3, 4, 5, 4, 5, 6]


def test_a_run_that_ended_or_has_other_params_is_not_gone_on_with(workspace: Path) -> None:
    mine = {"tracking.backends": ["jsonl"], "tracking.experiment": "mine"}
    first, other = (params_module.load(REPOSITORY / "params.yaml", {**mine, "seed": seed}) for seed in (7, 8))
    track(first)
    track(first)
    killed(other, range(1, 3))
    track(first)
    starts = [next(iter(line)) for line in json_lines(workspace, "mine") if "run" in line]
    assert starts == ["start"] * 4


def test_lineage_is_part_of_the_config(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    with publish.publishing(paths.SFT_MODEL, {"stage": "sft"}) as out:
        (out / "weights").write_bytes(b"1")
    first = tracking_runs.identifier(params(), "ppo", "mine")
    track(params(backends=["jsonl"], experiment="mine"))
    sha256 = publish.sha256_of(paths.SFT_MODEL / publish.MANIFEST)
    assert json_lines(workspace, "mine")[0]["config"]["lineage"] == {"models/sft": sha256}
    with publish.publishing(paths.SFT_MODEL, {"stage": "sft"}) as out:
        (out / "weights").write_bytes(b"2")
    assert tracking_runs.identifier(params(), "ppo", "mine") != first


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_goes_on_with_the_same_run(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    chosen = params(backends=["mlflow"], experiment="mine")
    killed(chosen, range(1, 3))
    with Tracker(chosen, "ppo") as tracker:
        for step in (2, 3):
            tracker.log(step, {"reward/mean": step / 8})
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{workspace / 'logs/tracking/mlflow.db'}")
    experiment = client.get_experiment_by_name("rlhf-pipeline")
    assert experiment is not None
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert [item.step for item in client.get_metric_history(run.info.run_id, "reward/mean")] == [1, 2, 3]


def test_the_group_is_the_flows_then_the_params_then_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_group(params()).startswith("params-")
    assert run_group(params()) == run_group(params())
    assert run_group(params()) != run_group(params(project="other"))
    assert run_group(params(experiment="mine")) == "mine"
    monkeypatch.setenv("RLHF_RUN_GROUP", "flow-1")
    assert run_group(params(experiment="mine")) == "flow-1"


def test_importing_the_tracker_imports_no_backend() -> None:
    names = ("wandb", "tensorboard", "mlflow", "torch")
    code = f"import sys, rlhf_pipeline.tracking; print([n for n in {names} if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_flatten() -> None:
    assert flatten({"a": {"b": 1, "c": {}}, "d": [2]}) == {"a.b": 1, "a.c": {}, "d": [2]}


KILLED_SERVICE = """
import os, psutil, signal, sys, time
from pathlib import Path
from rlhf_pipeline.params import load
from rlhf_pipeline.tracking import Tracker

with Tracker(load(Path(sys.argv[1]), {"tracking.backends": ["wandb", "jsonl"]}), "ppo") as tracker:
    tracker.log(1, {"reward": 0.5})
    while not list(Path("logs/tracking").glob("*/ppo.jsonl")):
        time.sleep(0.1)
    for child in psutil.Process().children(recursive=True):
        child.kill()
        child.wait()
    time.sleep(1)
    tracker.log(2, {"reward": 0.75})
"""


def test_a_killed_wandb_service_does_not_stop_the_other_backends(tmp_path: Path) -> None:
    params = Path(__file__).parents[2] / "presets/tiny-cpu.yaml"
    done = subprocess.run(
        [sys.executable, "-c", KILLED_SERVICE, str(params)],
        cwd=tmp_path,
        env={
            name: value
            for name, value in os.environ.items()
            if name not in ("WANDB_SERVICE", "RLHF_WORKSPACE")
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "tracking: wandb is off, training goes on" in done.stderr
    [file] = tmp_path.glob("logs/tracking/*/ppo.jsonl")
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["reward"] for row in rows if "step" in row] == [0.5, 0.75]
    assert rows[-1]["end"] == "finished"
