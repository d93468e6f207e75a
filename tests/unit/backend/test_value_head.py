"""The critic's loader: the reward model's score is the critic's value, or nothing is loaded.

The proof through verl's own FSDP engine is in test_value_head_engine.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate import init_empty_weights
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    Qwen2Config,
)

from rlhf_pipeline.backend.value_head import load_value_model
from rlhf_pipeline.errors import CheckpointError


def tiny_config(**changes: object) -> Qwen2Config:
    settings = {
        "vocab_size": 64,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "pad_token_id": 0,
        "num_labels": 1,
        "tie_word_embeddings": False,
    }
    return Qwen2Config(**{**settings, **changes})


@pytest.fixture
def reward_model(tmp_path: Path) -> PreTrainedModel:
    """A reward model with a head large enough for scores to differ."""
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(tiny_config(), dtype=torch.float32).eval()
    torch.nn.init.normal_(model.score.weight)
    return model


@pytest.fixture
def saved(reward_model: PreTrainedModel, tmp_path: Path) -> Path:
    reward_model.save_pretrained(tmp_path / "reward_model")
    return tmp_path / "reward_model"


@pytest.fixture
def language_model(tmp_path: Path) -> Path:
    AutoModelForCausalLM.from_config(tiny_config(), dtype=torch.float32).save_pretrained(tmp_path / "sft")
    return tmp_path / "sft"


def load(folder: Path, attention: str = "sdpa", new_value_head: bool = False) -> PreTrainedModel:
    """Load as verl's critic engine does, which sets its overrides on the config as attributes."""
    config = AutoConfig.from_pretrained(folder, attn_implementation=attention, num_labels=1)
    config.new_value_head = new_value_head
    return load_value_model(str(folder), torch.float32, config, trust_remote_code=False).eval()


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    file = folder / "model.safetensors"
    weights = load_file(file)
    edit(weights)
    save_file(weights, file, metadata={"format": "pt"})


def test_the_last_value_is_the_reward_models_score(reward_model: PreTrainedModel, saved: Path) -> None:
    critic = load(saved)
    for n_tokens in (3, 7, 12):
        input_ids = torch.randint(1, 64, (1, n_tokens))
        with torch.no_grad():
            score = reward_model(input_ids=input_ids).logits[0, 0]
            value = critic(input_ids=input_ids).logits[0, -1, 0]
        assert abs(score) > 1e-2
        torch.testing.assert_close(value, score, atol=1e-5, rtol=0)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_configured_attention_is_used(saved: Path, attention: str) -> None:
    critic = load(saved, attention)
    assert critic.config._attn_implementation == attention


def test_a_missing_layer_is_named_and_nothing_is_loaded(saved: Path) -> None:
    edit_weights(saved, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(CheckpointError, match=r"missing weights: model\.layers\.1\.mlp\.up_proj\.weight"):
        load(saved)


def test_new_value_head_does_not_excuse_a_missing_layer(language_model: Path) -> None:
    edit_weights(language_model, lambda weights: weights.pop("model.norm.weight"))
    with pytest.raises(CheckpointError, match=r"missing weights: model\.norm\.weight"):
        load(language_model, new_value_head=True)


def test_a_language_model_is_refused_and_the_way_to_allow_it_is_named(language_model: Path) -> None:
    with pytest.raises(CheckpointError) as error:
        load(language_model)
    message = str(error.value)
    assert "missing weights: score.weight" in message
    assert "without a place in it: lm_head.weight" in message
    assert "critic.model.override_config.new_value_head=True" in message


def test_an_allowed_new_head_starts_at_zero(language_model: Path) -> None:
    critic = load(language_model, new_value_head=True)
    values = critic(input_ids=torch.randint(1, 64, (2, 5))).logits
    assert torch.equal(values, torch.zeros(2, 5, 1))


def test_new_value_head_keeps_a_trained_head(reward_model: PreTrainedModel, saved: Path) -> None:
    critic = load(saved, new_value_head=True)
    assert torch.equal(critic.score.weight, reward_model.score.weight)


def test_a_critic_loads_its_own_bias_again(saved: Path, tmp_path: Path) -> None:
    critic = load(saved)
    assert critic.score.bias.item() == 0
    torch.nn.init.constant_(critic.score.bias, 0.25)
    critic.save_pretrained(tmp_path / "critic")
    assert load(tmp_path / "critic").score.bias.item() == 0.25


def test_a_classifier_with_two_labels_is_refused(tmp_path: Path) -> None:
    model = AutoModelForSequenceClassification.from_config(tiny_config(num_labels=2))
    model.save_pretrained(tmp_path / "two")
    with pytest.raises(CheckpointError, match=r"weights of another shape: score\.weight"):
        load(tmp_path / "two")


def test_a_head_that_is_not_finite_is_refused(saved: Path) -> None:
    edit_weights(saved, lambda weights: weights["score.weight"].fill_(float("nan")))
    with pytest.raises(CheckpointError, match="not finite"):
        load(saved)


def test_ranks_that_hold_no_weights_yet_check_the_names_only(saved: Path) -> None:
    with init_empty_weights():
        critic = load(saved)
    assert critic.score.weight.device.type == "meta"
