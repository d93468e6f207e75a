"""What a newcomer has after `make demo`, on a reduced run."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import psutil
import pytest

from rlhf_pipeline import publish

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
STAGES = (
    "prepare_data",
    "validate_data",
    "base_model",
    "sft",
    "reward_model",
    "judge",
    "ppo",
    "evaluate",
    "report",
)


def metrics(run: Any, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / f"reports/metrics/{stage}.json").read_text())
    return found


def curve(run: Any, stage: str) -> list[dict[str, str]]:
    with (run.folder / f"reports/curves/{stage}.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_summary_is_printed_and_names_the_report(run: Any) -> None:
    assert "reports/report.html" in run.output
    assert "Traceback" not in run.output


def test_models_are_hugging_face_folders_with_verified_manifests(run: Any) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    for name in ("base", "sft", "policy"):
        folder = run.folder / "models" / name
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert model.config.vocab_size == len(AutoTokenizer.from_pretrained(folder))
    reward = AutoModelForSequenceClassification.from_pretrained(run.folder / "models/reward_model")
    assert reward.config.num_labels == 1
    for name in ("sft", "reward_model", "policy"):
        folder = run.folder / "models" / name
        assert publish.verify(folder)["files"]
        assert (folder / "README.md").read_text().startswith("---")


def test_ppo_moved_the_policy_and_measured_what_it_did(run: Any) -> None:
    rows = curve(run, "ppo")
    assert [int(row["step"]) for row in rows] == [0, 1, 2, 3, 4]
    assert float(rows[1]["kl"]) == pytest.approx(0.0, abs=1e-4)
    assert float(rows[4]["kl"]) > 0
    assert all(0 < float(row["response_tokens"]) <= 48 for row in rows[1:])
    assert [row["step"] for row in rows if row["validation_score"]] == ["0", "2", "4"]
    assert all(float(row["rollout_probs_diff"]) < 1e-3 for row in rows[1:])
    found = metrics(run, "ppo")
    assert found["best_step"] in (0, 2, 4)
    assert found["finished"] == "all steps done"


def test_reward_model_learned_and_evaluation_has_its_figures(run: Any) -> None:
    assert metrics(run, "reward_model")["pair_accuracy"] > 0.6
    found = metrics(run, "evaluate")
    assert found["n_prompts"] == 64
    for name in ("gold_sft", "gold_policy", "win_rate", "kl_per_token", "pair_accuracy"):
        assert f"{name}_ci_low" in found or name == "kl_per_token"
    assert found["gold_sft_ci_low"] <= found["gold_sft"] <= found["gold_sft_ci_high"]


def test_tracking_was_offline_and_the_report_stands_alone(run: Any) -> None:
    assert list((run.folder / "logs/tracking").rglob("*.jsonl"))
    assert list(run.folder.rglob("offline-run-*"))
    page = (run.folder / "reports/report.html").read_text()
    assert "<html" in page
    assert 'src="http' not in page


def test_nothing_is_left_running(run: Any) -> None:
    here = str(run.folder)
    left = []
    for process in psutil.process_iter():
        try:
            if process.cwd().startswith(here) and "prefect" not in " ".join(process.cmdline()):
                left.append(process.cmdline())
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    assert left == []


def test_an_estimate_runs_real_steps_and_leaves_nothing(run: Any) -> None:
    said = run.command("scripts.estimate").stdout
    assert "4, each of 16 responses" in said
    time_told = next(line for line in said.splitlines() if line.startswith("time"))
    found = re.search(r"4 steps of ([\d.]+) s, 3 validations of ([\d.]+) s", time_told)
    assert found, time_told
    assert all(float(seconds) > 0 for seconds in found.groups())
    assert not (run.folder / ".scratch/estimate").exists()


def test_a_second_repro_has_nothing_to_do(run: Any) -> None:
    again = run.command("dvc", "repro")
    for stage in STAGES:
        assert f"Stage '{stage}' didn't change, skipping" in again.stdout
    status = run.command("dvc", "status")
    assert "up to date" in status.stdout


def test_a_ppo_parameter_reruns_only_ppo_and_what_follows(run: Any) -> None:
    params = run.folder / "params.yaml"
    before = params.read_text()
    try:
        run.change_params({"ppo.kl.loss.coef": 0.2})
        changed = json.loads(run.command("dvc", "status", "--json").stdout)
    finally:
        params.write_text(before)
    assert "ppo" in changed
    assert not {"sft", "reward_model", "prepare_data", "validate_data", "base_model"} & set(changed)


def test_the_commands_of_dvc_work(run: Any) -> None:
    assert "pair_accuracy" in run.command("dvc", "metrics", "show").stdout
    assert Path(run.command("dvc", "plots", "show").stdout.strip().removeprefix("file://")).exists()


def test_the_same_flow_again_is_cached(run: Any) -> None:
    again = run.command("flows.train")
    assert again.stdout.lower().count("cached") >= len(STAGES)


def test_chat_answers(run: Any) -> None:
    answer = run.command("scripts.chat", "Hi, Olga here. My blue table is late.")
    assert answer.stdout.strip()
