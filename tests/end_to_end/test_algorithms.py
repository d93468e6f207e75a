"""The ways to models/policy besides PPO with a critic, by params alone, on copies of the reduced run.

Stages that the params do not touch come from the run's cache; the rest is the real stack.
"""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import publish

from .conftest import Run, logs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SMALL: dict[str, Any] = {
    "ppo.train_batch_size": 8,
    "ppo.mini_batch_size": 8,
    "ppo.micro_batch_size_per_gpu": 8,
}
GROUPS = {
    "ppo.adv_estimator": "grpo",
    "ppo.kl.reward.coef": 0.0,
    "ppo.kl.reward.controller": "fixed",
    "ppo.validation.before_train": False,
}
GREETINGS = ("Hello.", "Hi.", "Good day.", "Hey.", "Dear team.")
FIRST, LAST = ("Ana", "Ben", "Cem", "Dan"), ("Abt", "Berg", "Cole", "Diaz", "Egg")
TOOLS = '''
from verl.tools.function_tool import function_tool

STATUS = {"4": "sent", "7": "lost"}


@function_tool
def find(n: str) -> str:
    """Looks an order up.

    Args:
        n: The number of the order.
    """
    return STATUS.get(n, "unknown")
'''
CALL = '<tool_call>{{"name": "find", "arguments": {{"n": "{}"}}}}</tool_call>'
REWARD = '''
def compute_score(data_source, solution_str, ground_truth, extra_info):
    """Half for asking the tool for the right order, half for saying what it answered."""
    return 0.5 * (ground_truth in solution_str) + 0.5 * (f"It is {ground_truth}." in solution_str)
'''


@pytest.fixture
def variant(run: Run, tmp_path: Path) -> Callable[..., Run]:
    """Repeats the run with other params in a copy of its workspace."""

    def repeated(changes: dict[str, Any], *stages: str, files: dict[str, str] | None = None) -> Run:
        folder = tmp_path / "clone"
        shutil.copytree(run.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(".scratch", "logs"))
        copy = Run(folder, "")
        copy.change_params(changes)
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        done = copy.command("dvc", "repro", *stages, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:] + logs(folder)
        return Run(folder, done.stdout)

    return repeated


def figures(run: Run, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / f"reports/metrics/{stage}.json").read_text())
    return found


def column(run: Run, name: str) -> list[float]:
    """The measured values of one column of PPO's curve."""
    with (run.folder / "reports/curves/ppo.csv").open() as file:
        return [float(row[name]) for row in csv.DictReader(file) if row[name]]


def test_grpo_with_a_rule_needs_no_reward_model(variant: Callable[..., Run]) -> None:
    changes = {
        **SMALL,
        **GROUPS,
        "ppo.rollout.n": 4,
        "ppo.reward.source": "rule",
        "ppo.reward.rule": "synthetic",
        "reward_model.source": "none",
    }
    done = variant(changes)
    assert column(done, "explained_variance") == []
    assert all(0 <= reward <= 1 for reward in column(done, "reward"))
    assert column(done, "reward") == pytest.approx(column(done, "gold"), abs=1e-5)
    assert column(done, "kl")[-1] > 0
    assert figures(done, "evaluate")["win_rate_judge"] == "gold"
    assert "reward_policy" not in figures(done, "evaluate")
    assert "with GRPO" in (done.folder / "reports/report.html").read_text()


def test_a_judge_that_ppo_is_not_trained_against_tells_the_win_rate(variant: Callable[..., Run]) -> None:
    changes = {
        **SMALL,
        "evaluate.judge": "train",
        "ppo.validation.score": "win_rate",
        "ppo.total_steps": 2,
        "ppo.profile_steps": [2],
    }
    done = variant(changes)
    models = [done.folder / "models" / name for name in ("reward_model", "judge")]
    weights = [publish.sha256_of(folder / "model.safetensors") for folder in models]
    assert weights[0] != weights[1]
    assert figures(done, "judge")["pair_accuracy"] > 0.6
    assert column(done, "validation_score")[0] == 0.5, "a policy neither wins nor loses against itself"
    assert 0 < column(done, "validation_score")[-1] < 1
    found = figures(done, "evaluate")
    assert found["judge_pair_accuracy"] > 0.6
    assert found["judge_policy"] != found["reward_policy"]
    assert 0 < found["win_rate_by_judge"] < 1
    traces = sorted((done.folder / "logs/profile").glob("*step2*.json.gz"))
    assert traces, "ppo.profile_steps leaves a trace"
    with gzip.open(traces[0], "rt") as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert "mini_batch0" in names
    assert any("compute_log_prob" in str(name) for name in names)


def test_best_of_n_distillation_samples_through_vllm(variant: Callable[..., Run]) -> None:
    changes = {
        "ppo.best_of_n.enabled": True,
        "ppo.best_of_n.n": 4,
        "ppo.best_of_n.n_prompts": 96,
        "ppo.best_of_n.engine": "vllm",
        "ppo.best_of_n.sft.batch_size": 16,
        "ppo.best_of_n.sft.micro_batch_size_per_gpu": 16,
        "ppo.best_of_n.sft.validate_every_steps": 3,
    }
    done = variant(changes)
    found = figures(done, "ppo")
    assert 32 <= found["n_prompts"] <= 96
    assert found["candidates"] <= 4 * found["n_prompts"]
    assert found["reward_of_chosen"] > found["reward_of_candidates"]
    assert column(done, "validation_loss")[-1] < column(done, "validation_loss")[0] + 0.1
    assert publish.verify(done.folder / "models/policy")["step"] == found["best_step"] > 0
    assert figures(done, "evaluate")["kl_per_token"] > 0
    assert "best-of-n distillation" in (done.folder / "reports/report.html").read_text()


def test_a_policy_comes_nearer_to_its_teacher(run: Run, variant: Callable[..., Run]) -> None:
    """The teacher is the run's SFT model, the pupil one with half its steps."""
    changes = {
        **SMALL,
        **GROUPS,
        "sft.max_steps": 20,
        "reward_model.source": "none",
        "ppo.reward.source": "rule",
        "ppo.reward.rule": "synthetic",
        "ppo.kl.loss.coef": 0.0,
        "ppo.train_batch_size": 32,
        "ppo.mini_batch_size": 32,
        "ppo.actor.lr": 1.0e-3,
        "ppo.total_steps": 8,
        "ppo.validation.every": 8,
        "ppo.distillation.enabled": True,
        "ppo.distillation.loss": "k3",
        "ppo.distillation.teacher_path": str(run.folder / "models/sft"),
    }
    done = variant(changes, "ppo")
    distance = column(done, "teacher_loss")
    assert len(distance) == 8
    assert sum(distance[-2:]) < 0.9 * sum(distance[:2])


@pytest.mark.long
def test_the_policy_calls_a_tool_over_several_turns(variant: Callable[..., Run]) -> None:
    orders = {"4": "sent", "7": "lost"}
    asked = [
        (f"{hello} Where is order {n}? I am {first} {last}.", n)
        for n, hello, first, last in product(orders, GREETINGS, FIRST, LAST)
    ]
    rows = [
        {
            "messages": [
                {"role": "user", "content": text},
                {"role": "assistant", "content": CALL.format(n)},
                {"role": "tool", "content": orders[n]},
                {"role": "assistant", "content": f"It is {orders[n]}."},
            ]
        }
        for text, n in asked
    ]
    prompts = [{"prompt": text, "ground_truth": orders[n]} for text, n in asked]
    source = {"kind": "auto", "weight": 1.0, "limit": None, "mapping": None, "options": None}
    changes = {
        **SMALL,
        **GROUPS,
        "data.sources": [
            {**source, "name": "calls", "path": "calls.jsonl", "options": {"tables": ["sft"]}},
            {**source, "name": "orders", "path": "orders.jsonl"},
        ],
        "data.max_prompt_tokens": 128,
        "data.max_response_tokens": 192,
        "validate_data.tables": ["sft", "prompts"],
        "sft.batch_size": 16,
        "sft.micro_batch_size_per_gpu": 16,
        "sft.epochs": 8,
        "sft.max_steps": 70,
        "sft.validate_every_steps": 35,
        "reward_model.source": "none",
        "ppo.rollout.n": 4,
        "ppo.rollout.multi_turn.enabled": True,
        "ppo.rollout.multi_turn.tool_config_path": "data/user_code/tools.py",
        "ppo.rollout.multi_turn.max_assistant_turns": 2,
        "ppo.reward.source": "function",
        "ppo.reward.function_path": "data/user_code/reward.py",
        "ppo.reward.function_name": "compute_score",
        "ppo.validation.score": "reward",
        "rollback.enabled": False,
        "ppo.total_steps": 2,
    }
    files = {
        "data/raw/calls.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "data/raw/orders.jsonl": "".join(json.dumps(row) + "\n" for row in prompts),
        "data/user_code/tools.py": TOOLS,
        "data/user_code/reward.py": REWARD,
    }
    done = variant(changes, "ppo", files=files)
    assert max(column(done, "turns")) > 2, "user, call, tool's answer, last word are four"
    assert max(column(done, "reward")) > 0
    assert max(column(done, "rollout_probs_diff")) < 1e-3, "tool text is context, not the policy's"


@pytest.mark.long
def test_logged_responses_feed_sft_reward_model_and_best_of_n(variant: Callable[..., Run]) -> None:
    """Scores of a log alone: nothing is sampled before the evaluation."""
    from rlhf_pipeline.data.synthetic import make
    from rlhf_pipeline.rewards.gold import gold_score

    made = make(500, 1, 2, seed=3)
    answers: dict[str, list[str]] = {}
    for row in made["preferences"]:
        answers.setdefault(row["prompt"][0]["content"], []).extend([row["chosen"], row["rejected"]])
    log = [
        {"prompt": prompt, "responses": texts, "scores": [gold_score(prompt, text) for text in texts]}
        for prompt, texts in answers.items()
    ]
    source = {"kind": "ranked", "weight": 1.0, "limit": None, "mapping": None, "options": None}
    changes = {
        "data.sources": [{**source, "name": "log", "path": "log.jsonl"}],
        "validate_data.on_error": "quarantine",
        "sft.batch_size": 16,
        "sft.micro_batch_size_per_gpu": 16,
        "sft.max_steps": 20,
        "reward_model.max_steps": 20,
        "ppo.best_of_n.enabled": True,
        "ppo.best_of_n.candidates": "logged",
        "ppo.best_of_n.sft.batch_size": 16,
        "ppo.best_of_n.sft.micro_batch_size_per_gpu": 16,
        "ppo.best_of_n.sft.max_steps": 6,
    }
    files = {"data/raw/log.jsonl": "".join(json.dumps(row) + "\n" for row in log)}
    done = variant(changes, "ppo", files=files)
    found = figures(done, "ppo")
    assert found["candidates"] > 2 * found["n_prompts"]
    assert found["reward_of_chosen"] > found["reward_of_candidates"]
    assert not list((done.folder / ".scratch").glob("generations/*"))
