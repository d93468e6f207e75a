"""The control runs on a real DVC repository whose one stage computes its figures from the params."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_pipeline.errors import StageError
from rlhf_pipeline.params import load
from scripts import controls

ROOT = Path(__file__).parents[2]
STAGE = """
import json, pathlib
from ruamel.yaml import YAML
params = YAML(typ="safe").load(pathlib.Path("params.yaml"))
learns = not params["reward_model"]["shuffle_labels"]
figures = {
    "gold_sft": 0.5,
    "gold_policy": 0.5 + 0.2 * learns + params["seed"] / 1000,
    "gold_policy_ci_low": 0.25,
    "gold_policy_ci_high": 0.75,
    "kl_per_token": 0.05 if params["ppo"]["kl"]["loss"]["coef"] else 0.5,
}
folder = pathlib.Path("reports/metrics")
folder.mkdir(parents=True, exist_ok=True)
(folder / "evaluate.json").write_text(json.dumps(figures))
(folder / "ppo.json").write_text(json.dumps({"validation_score_last": 0.25 + 0.5 * learns}))
"""
DVC_YAML = """
stages:
  evaluate:
    cmd: {python} stage.py
    deps: [stage.py]
    params: [seed, ppo, reward_model]
    metrics: [reports/metrics/evaluate.json, reports/metrics/ppo.json]
"""


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stage.py").write_text(STAGE)
    (tmp_path / "dvc.yaml").write_text(DVC_YAML.format(python=sys.executable))
    text = (ROOT / "presets/tiny-cpu.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text, encoding="utf-8")
    run("git", "init", "-q")
    run(sys.executable, "-m", "dvc", "init", "-q")
    run("git", "add", ".")
    run("git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "start")
    return tmp_path


def test_every_control_changes_the_params_lawfully() -> None:
    params = load(ROOT / "presets/tiny-cpu.yaml")
    changes = controls.controls(params)
    assert [*changes] == ["seed 8", "seed 9", "shuffled labels", "no KL"]
    for settings in changes.values():
        given = {
            key: value == "true" if value in ("true", "false") else value for key, value in settings.items()
        }
        assert load(ROOT / "presets/tiny-cpu.yaml", given) != params


@pytest.mark.slow
def test_the_table_shows_the_figures_of_each_run_and_the_workspace_stays(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StageError, match="run `make demo` first"):
        controls.main()
    run(sys.executable, "-m", "dvc", "repro", "-q")
    before = (repository / "params.yaml").read_bytes()
    capfd.readouterr()
    controls.main()
    shown = [line for line in capfd.readouterr().out.splitlines() if line.startswith("|")]
    assert shown == [
        f"| run | {' | '.join(controls.COLUMNS)} |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| demo | - | 0.500 | 0.707 [0.250, 0.750] | - | 0.050 | - | 0.750 |",
        "| seed 8 | - | 0.500 | 0.708 [0.250, 0.750] | - | 0.050 | - | 0.750 |",
        "| seed 9 | - | 0.500 | 0.709 [0.250, 0.750] | - | 0.050 | - | 0.750 |",
        "| shuffled labels | - | 0.500 | 0.507 [0.250, 0.750] | - | 0.050 | - | 0.250 |",
        "| no KL | - | 0.500 | 0.707 [0.250, 0.750] | - | 0.500 | - | 0.750 |",
    ]
    assert (repository / "params.yaml").read_bytes() == before


@pytest.mark.slow
def test_a_control_that_fails_is_named(repository: Path) -> None:
    run(sys.executable, "-m", "dvc", "repro", "-q")
    (repository / "stage.py").write_text("raise SystemExit(3)")
    with pytest.raises(StageError, match="dvc exp run --temp --name control-seed-8"):
        controls.main()
