"""Every preset is a whole, valid params.yaml that the installed verl accepts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.params import Params, load
from rlhf_pipeline.params.load import read_yaml
from rlhf_pipeline.ppo.compose import compose
from rlhf_pipeline.ppo.overrides import RunPaths, verl_config

ROOT = Path(__file__).parents[2]
PRESETS = {path.stem: path for path in sorted((ROOT / "presets").glob("*.yaml"))}
RUN = RunPaths(*(Path("/run") / name for name in RunPaths._fields))


def keys(values: Any, prefix: str = "") -> set[str]:
    if not isinstance(values, dict) or prefix in ("ppo.verl_overrides.", "validate_data.checks."):
        return {prefix.rstrip(".")}
    return {key for name, value in values.items() for key in keys(value, f"{prefix}{name}.")}


def test_the_presets_are_these() -> None:
    assert set(PRESETS) == {
        "tiny-cpu",
        "tiny-cpu-2workers",
        "smollm2-135m",
        "qwen2.5-0.5b-1gpu",
        "qwen2.5-7b-4x8gpu",
        "qwen2.5-7b-4x8gpu-long",
        "moe-multinode",
    }


def test_params_yaml_is_the_default_preset() -> None:
    changed = subprocess.run(
        ["git", "diff", "--quiet", "HEAD", "--", "params.yaml", "presets"], cwd=ROOT, check=False
    )
    if changed.returncode:
        pytest.skip("params.yaml or a preset is being edited")
    assert (ROOT / "params.yaml").read_bytes() == PRESETS["tiny-cpu"].read_bytes()


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_valid_and_says_what_it_is_for(name: str) -> None:
    load(PRESETS[name])
    first = PRESETS[name].read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_keys_of_the_default_in_the_same_order(name: str) -> None:
    default, preset = read_yaml(PRESETS["tiny-cpu"]), read_yaml(PRESETS[name])
    assert keys(preset) == keys(default)
    assert list(preset) == list(default)


@pytest.mark.parametrize("name", PRESETS)
def test_verl_knows_every_key_that_a_preset_becomes(name: str) -> None:
    params = load(PRESETS[name])
    device = "cpu" if name.startswith("tiny-cpu") else "cuda"
    config = compose(
        verl_config(params, RUN, device, total_steps=100, validate_every_steps=10),
        params.ppo.verl_overrides,
        params.hardware.strategy,
    )
    assert config.data.train_batch_size == params.ppo.train_batch_size
    assert config.algorithm.adv_estimator == params.ppo.adv_estimator
    assert config.actor_rollout_ref.actor.strategy == params.hardware.strategy
    for key, value in params.ppo.verl_overrides.items():
        place = config
        for part in key.split("."):
            place = place[part]
        assert place == value, key


@pytest.fixture(scope="module")
def seven() -> Params:
    return load(PRESETS["qwen2.5-7b-4x8gpu"])


def test_the_seven_billion_preset_holds_the_published_settings(seven: Params) -> None:
    hardware, ppo = seven.hardware, seven.ppo
    assert (hardware.nnodes, hardware.n_gpus_per_node, hardware.tensor_parallel_size) == (4, 8, 2)
    assert hardware.offload_policy
    assert (ppo.train_batch_size, ppo.mini_batch_size, ppo.micro_batch_size_per_gpu) == (2048, 512, 16)
    assert (ppo.ppo_epochs, ppo.total_epochs, ppo.validation.every) == (4, 15, "epoch")
    assert (ppo.actor.lr, ppo.critic.lr) == (1e-6, 1e-5)
    assert (ppo.actor.clip_ratio, ppo.actor.entropy_coeff, ppo.actor.grad_clip) == (0.2, 0.01, 1.0)
    kl = ppo.kl
    assert (kl.reward.coef, kl.reward.controller, kl.reward.target) == (0.002, "moving_average", 0.1)
    assert (kl.loss.coef, kl.loss.estimator) == (0.01, "k3")
    assert (ppo.rollout.gpu_memory_utilization, ppo.remove_padding, ppo.gradient_checkpointing) == (
        0.6,
        True,
        True,
    )


def test_the_token_budgets_follow_the_rule_of_thumb(seven: Params) -> None:
    longest = seven.data.max_prompt_tokens + seven.data.max_response_tokens
    assert seven.ppo.dynamic_batch.actor_tokens_per_gpu == 16384 >= 3 * longest
    assert seven.ppo.dynamic_batch.critic_tokens_per_gpu == 2 * longest


def test_the_long_variant_splits_each_row_over_two_gpus(seven: Params) -> None:
    long = load(PRESETS["qwen2.5-7b-4x8gpu-long"])
    assert long.hardware.ulysses_size == 2
    assert long.data.max_response_tokens > 2 * seven.data.max_response_tokens


def test_two_workers_is_the_default_but_for_the_workers() -> None:
    one, two = (load(PRESETS[name]) for name in ("tiny-cpu", "tiny-cpu-2workers"))
    assert two.hardware == one.hardware.model_copy(update={"n_gpus_per_node": 2})
    assert two.ppo.train_batch_size == one.ppo.train_batch_size
    assert (two.data, two.model, two.guards, two.evaluate) == (one.data, one.model, one.guards, one.evaluate)
