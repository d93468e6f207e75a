"""params -> verl's configuration: the values that matter, and that the installed verl knows every key."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.params import load
from rlhf_pipeline.ppo.compose import compose
from rlhf_pipeline.ppo.overrides import EXTRA_KEYS, RunPaths, verl_config

ROOT = Path(__file__).parents[3]
PATHS = RunPaths(*(Path("/run") / name for name in RunPaths._fields))


def keys(device: str = "cpu", **overrides: Any) -> dict[str, Any]:
    params = load(ROOT / "params.yaml", {name.replace("__", "."): value for name, value in overrides.items()})
    return verl_config(params, PATHS, device, total_steps=10, validate_every_steps=5)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("preset", sorted(path.stem for path in (ROOT / "presets").glob("*.yaml")))
def test_the_installed_verl_knows_every_key(preset: str, device: str) -> None:
    params = load(ROOT / "presets" / f"{preset}.yaml")
    found = verl_config(params, PATHS, device, total_steps=10, validate_every_steps=5)
    config = compose(found, params.ppo.verl_overrides, params.hardware.strategy)
    assert config.data.train_batch_size == params.ppo.train_batch_size
    assert config.actor_rollout_ref.actor.ppo_mini_batch_size == params.ppo.mini_batch_size
    assert config.trainer.test_freq == 5


def test_an_unknown_key_is_named_with_its_place_in_params() -> None:
    bad = {"actor_rollout_ref.actor.kl_los_coef": 1.0}
    with pytest.raises(ParamsError, match=r"ppo\.verl_overrides: actor_rollout_ref\.actor\.kl_los_coef"):
        compose({**keys(), **bad}, bad)


def test_extra_keys_are_fields_of_verls_dataclasses() -> None:
    from verl.workers.config import FSDPEngineConfig, HFModelConfig, RolloutConfig

    fields = {
        name: {field.name for field in dataclasses.fields(kind)}
        for name, kind in (("fsdp", FSDPEngineConfig), ("model", HFModelConfig), ("rollout", RolloutConfig))
    }
    for key in EXTRA_KEYS:
        parts = key.split(".")
        if "fsdp_config" in parts or "fsdp" in parts:
            assert parts[-1] in fields["fsdp"], key
        elif "override_config" in parts:
            assert "override_config" in fields["model"], key
        elif "rollout" in parts:
            assert parts[parts.index("rollout") + 1] in fields["rollout"], key
        elif "inference" in parts:  # of a teacher
            assert parts[-1] in fields["rollout"], key
        else:
            assert key.startswith("ray_kwargs.ray_init."), key


def test_cpu_computes_in_float32_whatever_the_dtype_says() -> None:
    found = keys(hardware__device="auto", hardware__dtype="bfloat16")
    for engine in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp"):
        assert found[f"{engine}.mixed_precision"]["param_dtype"] == "fp32"
    assert found["actor_rollout_ref.rollout.dtype"] == "float32"
    assert keys("cuda", hardware__dtype="bfloat16")["critic.fsdp.mixed_precision"] is None


def test_both_kl_placements_reach_verl() -> None:
    found = keys(
        ppo__kl__reward__coef=0.3,
        ppo__kl__reward__estimator="k1",
        ppo__kl__loss__coef=0.2,
        ppo__kl__loss__estimator="k2",
    )
    assert (found["algorithm.use_kl_in_reward"], found["algorithm.kl_ctrl.kl_coef"]) == (True, 0.3)
    assert found["algorithm.kl_penalty"] == "kl"
    assert found["actor_rollout_ref.actor.use_kl_loss"] is True
    assert found["actor_rollout_ref.actor.kl_loss_coef"] == 0.2
    assert found["actor_rollout_ref.actor.kl_loss_type"] == "mse"
    off = keys(ppo__kl__reward__coef=0.0, ppo__kl__reward__controller="fixed", ppo__kl__loss__coef=0.0)
    assert off["algorithm.use_kl_in_reward"] is False
    assert off["actor_rollout_ref.actor.use_kl_loss"] is False


def test_the_critic_starts_from_the_reward_model_or_from_a_new_head() -> None:
    assert keys()["critic.model.override_config.new_value_head"] is False
    ruled = keys(ppo__reward__source="rule", ppo__reward__rule="synthetic")
    assert ruled["critic.model.override_config.new_value_head"] is True
    assert ruled["reward.reward_model.enable"] is False
    assert (
        keys(ppo__adv_estimator="grpo", ppo__rollout__n=4, ppo__kl__loss__coef=0.0)["critic.enable"] is False
    )


def test_the_reward_servers_length_is_bounded_by_its_model() -> None:
    params = load(ROOT / "params.yaml")
    longest = 2 * (params.data.max_prompt_tokens + params.data.max_response_tokens)
    name = "reward.reward_model.rollout.max_model_len"
    assert verl_config(params, PATHS, "cpu", 10, 5)[name] == longest
    assert verl_config(params, PATHS, "cpu", 10, 5, reward_positions=longest - 1)[name] == longest - 1
    assert verl_config(params, PATHS, "cpu", 10, 5, reward_positions=10 * longest)[name] == longest


def test_a_ray_of_the_runs_own_unless_an_address_is_given() -> None:
    own = keys()
    assert own["ray_kwargs.ray_init.address"] == "local"
    assert own["ray_kwargs.ray_init.num_gpus"] == 1
    joined = keys(hardware__ray_address="10.0.0.1:6379")
    assert joined["ray_kwargs.ray_init.address"] == "10.0.0.1:6379"
    assert "ray_kwargs.ray_init.num_cpus" not in joined


def test_overrides_win() -> None:
    found = keys(ppo__verl_overrides={"algorithm.gamma": 0.5})
    assert found["algorithm.gamma"] == 0.5


TEACHER = {"ppo__distillation__enabled": True, "ppo__adv_estimator": "grpo", "ppo__kl__reward__coef": 0.0}
ALONE = {**TEACHER, "ppo__kl__loss__coef": 0.0}


@pytest.mark.parametrize("loss", ["k1", "k3", "forward_kl_topk"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_verl_knows_the_teachers_keys_and_takes_its_loss(device: str, loss: str) -> None:
    from verl.utils.config import omega_conf_to_dataclass

    found = compose(keys(device, **ALONE, ppo__distillation__loss=loss, ppo__distillation__teacher_gpus=2))
    teaching = omega_conf_to_dataclass(found.distillation)
    assert teaching.distillation_loss.use_policy_gradient is (loss == "k1")
    assert [one.model_path for one in teaching.teacher_models.values()] == ["/run/teacher"]
    if device == "cpu":
        assert found.ray_kwargs.ray_init.num_gpus == 1 + 2


def test_tools_are_functions_or_verls_yaml() -> None:
    for name, key, other in (
        ("tools.py", "function_tool_path", "tool_config_path"),
        ("tools.yaml", "tool_config_path", "function_tool_path"),
    ):
        tools = {"enabled": True, "tool_config_path": f"data/user_code/{name}", "max_assistant_turns": 2}
        changes = {"ppo.rollout.multi_turn": tools, "ppo.reward.source": "rule", "ppo.reward.rule": "gsm8k"}
        params = load(ROOT / "params.yaml", changes)
        found = verl_config(params, PATHS._replace(tools=Path("/run") / name), "cpu", 10, 5)
        turns = compose(found).actor_rollout_ref.rollout.multi_turn
        assert (turns[key], turns[other]) == (f"/run/{name}", None)


def test_profiled_steps_switch_on_every_role_that_works() -> None:
    assert not [key for key in keys() if "profiler" in key]
    found = keys(ppo__profile_steps=[1, 5])
    assert found["global_profiler.steps"] == [1, 5]
    assert found["global_profiler.save_path"] == "/run/profile"
    switches = {key for key in found if key.endswith("profiler.enable")}
    assert switches == {
        "actor_rollout_ref.actor.profiler.enable",
        "actor_rollout_ref.ref.profiler.enable",
        "critic.profiler.enable",
    }
    groups = keys(
        ppo__adv_estimator="grpo", ppo__rollout__n=4, ppo__kl__loss__coef=0.0, ppo__profile_steps=[1]
    )
    assert "critic.profiler.enable" not in groups
