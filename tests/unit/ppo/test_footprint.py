"""GPU memory that is certain, against numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.params import Params, load
from rlhf_pipeline.ppo import footprint as module
from rlhf_pipeline.ppo.footprint import GIB, Sizes, check, footprint, gpu_bytes, problems, statement

PRESET = Path(__file__).parents[3] / "presets" / "smollm2-135m.yaml"
BILLION = Sizes(policy=10**9, critic=10**9, reward_model=10**9)
SMALL_GPU = 40 * 10**9


def preset(**changes: Any) -> Params:
    return load(PRESET, {name.replace("__", "."): value for name, value in changes.items()})


def test_full_training_of_two_models() -> None:
    found = footprint(preset(), BILLION, SMALL_GPU)
    # Two models of 4 GB in float32, 8 GB of moments each, and one gradient of 4 GB at a time.
    assert (found.weights, found.moments, found.gradients) == (8 * 10**9, 16 * 10**9, 4 * 10**9)
    assert found.left_for_training == 12 * 10**9
    # vLLM's shares, 0.4 and 0.15 of the card, and 2 GB of bfloat16 weights in each.
    assert (found.rollout, found.reward) == (16 * 10**9, 6 * 10**9)
    assert (found.rollout_weights, found.reward_weights) == (2 * 10**9, 2 * 10**9)
    assert problems(found) == []
    assert statement(found) == (
        "each GPU of 37.3 GiB: training keeps 26.1 GiB and has 11.2 GiB for activations and logits;"
        " vLLM takes up to 20.5 GiB while it samples and scores"
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # Adapters only: the policy's moments and gradients go, the critic's stay.
        ({"ppo__lora_rank": 8}, (8, 8, 4)),
        ({"hardware__n_gpus_per_node": 2}, (4, 8, 2)),
        ({"hardware__offload_policy": True}, (0, 0, 0)),
    ],
)
def test_what_shrinks_the_trainers_part(changes: dict[str, Any], expected: tuple[int, int, int]) -> None:
    found = footprint(preset(**changes), BILLION, SMALL_GPU)
    assert (found.weights, found.moments, found.gradients) == tuple(gb * 10**9 for gb in expected)


def test_grpo_has_no_critic_and_a_reward_in_process_no_engine() -> None:
    params = preset(ppo__adv_estimator="grpo", ppo__rollout__n=4, ppo__kl__loss__coef=0.0)
    found = footprint(params, Sizes(10**9, 0, 10**9), SMALL_GPU)
    assert (found.weights, found.moments, found.gradients) == (4 * 10**9, 8 * 10**9, 4 * 10**9)
    alone = footprint(preset(ppo__reward__serving="in_process"), BILLION, SMALL_GPU)
    assert (alone.reward, alone.reward_weights) == (0, 0)


def test_every_problem_names_its_figures_and_keys() -> None:
    big = Sizes(policy=8 * 10**9, critic=10**9, reward_model=4 * 10**9)
    told = problems(footprint(preset(), big, SMALL_GPU))
    assert len(told) == 5
    # 36 GB of weights, 72 of moments, 32 of gradients: 140 GB = 130.4 GiB.
    assert "take 130.4 GiB of each GPU's 37.3 GiB: raise hardware.n_gpus_per_node" in told[0]
    assert told[1].startswith("ppo.rollout.gpu_memory_utilization: vLLM asks for 14.9 GiB")
    assert "at most 0.10 fits" in told[1]
    assert "does not hold the policy's 14.9 GiB of weights" in told[2]
    assert told[3].startswith("ppo.reward.gpu_memory_utilization: vLLM asks for 5.6 GiB")
    assert "does not hold the reward model's 7.5 GiB of weights" in told[4]


def test_a_run_that_cannot_fit_is_refused_and_one_that_can_is_told(monkeypatch: Any, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 40960\necho 24576\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert gpu_bytes() == 24 * GIB, "the smallest card counts"
    assert check(preset(), Sizes(10**8, 10**8, 10**8)).startswith("each GPU of 24.0 GiB")
    with pytest.raises(ParamsError, match="does not fit in the GPU's memory\n  weights"):
        check(preset(), Sizes(2 * 10**9, 10**9, 10**9))
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert check(preset(), Sizes(2 * 10**9, 10**9, 10**9)) == "", "not known, so not refused"
