"""The run's control over a real ledger: decisions, knobs and resumed state, without verl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.params import load
from rlhf_pipeline.ppo.control import RunControl
from rlhf_pipeline.ppo.job import Job
from rlhf_pipeline.ppo.validation import Sample

ROOT = Path(__file__).parents[3]


def job(folder: Path, **overrides: Any) -> Job:
    params = load(
        ROOT / "params.yaml",
        {
            "ppo.checkpoints.min_free_gib": 0.0,
            **{name.replace("__", "."): v for name, v in overrides.items()},
        },
    )
    return Job(
        params=params.model_dump(mode="json"),
        config_file="unused",
        ledger=str(folder / "ledger"),
        params_digest="d",
        device="cpu",
        total_steps=8,
        validate_every_steps=2,
        validation_score="win_rate",
        judge=None,
        checkpoint_bytes=0,
    )


def samples(*rewards: float) -> list[Sample]:
    return [Sample(f"p{number}/0", {}, "a b c", reward, reward) for number, reward in enumerate(rewards)]


def save(control: RunControl, step: int, *rewards: float) -> dict[str, float]:
    metrics = control.validated(step, samples(*rewards))
    if control.to_save(step):
        (control.begin(step) / "weights").write_text(f"weights of {step}")
        control.commit(step)
    return metrics


FINE = {
    "actor/entropy": 1.0,
    "critic/score/mean": 0.1,
    "actor/reward_kl_penalty": 0.01,
    "response_length/mean": 20.0,
}


def test_validations_are_committed_with_win_rate_over_the_first(tmp_path: Path) -> None:
    control = RunControl(job(tmp_path), print)
    first = save(control, 0, *[0.0] * 40)
    second = save(control, 2, *[1.0] * 30, *[-1.0] * 10)
    assert first["val/score"] == 0.5
    assert second["val/score"] == 0.75
    best = control.ledger.best()
    assert best is not None
    assert (best.step, best.score) == (2, 0.75)
    control.close()


def test_a_confirmed_drop_rolls_back_to_the_best_and_turns_the_knobs(tmp_path: Path) -> None:
    said: list[str] = []
    control = RunControl(job(tmp_path), said.append)
    save(control, 0, *[0.0] * 60)
    save(control, 2, *[1.0] * 60)
    assert control.after_step(2, FINE) is None
    kl_before, lr_before = control.kl_controller.value, control.knobs.lr_factor
    save(control, 4, *[-1.0] * 60)
    action = control.after_step(4, FINE)
    assert action is not None
    assert action.kind == "rollback"
    assert action.restored is not None
    assert action.restored.step == 2
    assert (action.restored.folder / "weights").read_text() == "weights of 2"
    assert control.kl_controller.value == pytest.approx(2 * kl_before)
    assert control.knobs.lr_factor == 0.5 * lr_before
    assert control.ledger.rollbacks == 1
    assert any("rolled back from step 4 to step 2" in line for line in said)
    control.close()


def test_a_killed_run_resumes_with_the_knobs_of_its_rollbacks(tmp_path: Path) -> None:
    control = RunControl(job(tmp_path), print)
    save(control, 0, *[0.0] * 60)
    save(control, 2, *[1.0] * 60)
    control.after_step(2, FINE)
    save(control, 4, *[-1.0] * 60)
    control.after_step(4, FINE)
    expected = (control.knobs, control.kl_controller.state_dict())
    control.close()
    again = RunControl(job(tmp_path), print)
    restored = again.resume()
    assert restored is not None
    assert restored.step == 2
    assert (again.knobs, again.kl_controller.state_dict()) == expected
    assert again.first_judged["p0/0"] == 0.0
    again.close()


def test_nan_rolls_back_without_a_validation_and_at_most_max_rollbacks_times(tmp_path: Path) -> None:
    control = RunControl(job(tmp_path, rollback__max_rollbacks=1), print)
    save(control, 0, *[0.0] * 10)
    control.after_step(0, FINE)
    ruined = {**FINE, "actor/grad_norm": float("nan")}
    assert control.ruined(ruined)
    assert not control.ruined(FINE)
    action = control.after_step(1, ruined)
    assert action is not None
    assert action.kind == "rollback"
    stop = control.after_step(1, ruined)
    assert stop is not None
    assert stop.kind == "stop"
    assert "max_rollbacks" in stop.reason
    control.close()


def test_rollback_off_lets_a_drop_pass(tmp_path: Path) -> None:
    control = RunControl(job(tmp_path, rollback__enabled=False), print)
    save(control, 0, *[0.0] * 60)
    save(control, 2, *[-1.0] * 60)
    assert control.after_step(2, FINE) is None
    control.close()
