"""Model cards: valid front matter, the same text for the same work, no seconds in it."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rlhf_pipeline import publish
from rlhf_pipeline.model_card import model_card, write_model_card
from rlhf_pipeline.params import load

PARAMS = load(Path(__file__).parents[2] / "params.yaml")


@pytest.mark.parametrize(
    ("kind", "task"),
    [("sft", "text-generation"), ("reward_model", "text-classification"), ("ppo", "text-generation")],
)
def test_front_matter_is_yaml_that_the_hub_reads(kind: Any, task: Any) -> None:
    from huggingface_hub import ModelCard

    text = model_card(kind, PARAMS, {"loss": 0.5}, {})
    _, front, body = text.split("---\n", 2)
    values = YAML(typ="safe").load(front)
    assert values["pipeline_tag"] == task
    assert values["library_name"] == "transformers"
    assert ModelCard(text).data.to_dict()["pipeline_tag"] == task
    assert body.lstrip().startswith("# ")


def test_card_names_figures_parents_and_params_but_no_times(tmp_path: Any) -> None:
    parent = tmp_path / "sft"
    with publish.publishing(parent, {}) as work:
        (work / "config.json").write_text("{}")
    metrics = {"pair_accuracy": 0.91234567, "n_pairs": 475, "wall_s": 12.5}
    write_model_card(tmp_path, "reward_model", PARAMS, metrics, {"starting weights": parent})
    text = (tmp_path / "README.md").read_text()
    assert "| pair_accuracy | 0.9123 |" in text
    assert "| n_pairs | 475 |" in text
    assert "wall_s" not in text
    assert publish.sha256_of(parent / publish.MANIFEST)[:16] in text
    assert "centre_coef" in text


def test_equal_work_gives_equal_text_and_time_changes_nothing() -> None:
    first = model_card("ppo", PARAMS, {"reward": 1.0, "wall_s": 1.0}, {}, ["Stopped early."])
    assert first == model_card("ppo", PARAMS, {"reward": 1.0, "wall_s": 2.0}, {}, ["Stopped early."])
    assert "Stopped early." in first


@pytest.mark.parametrize("kind", ["sft", "reward_model", "ppo"])
def test_the_code_in_the_card_is_python(kind: Any) -> None:
    text = model_card(kind, PARAMS, {}, {})
    code = text.split("```python\n")[1].split("```")[0]
    compile(code, "card", "exec")
