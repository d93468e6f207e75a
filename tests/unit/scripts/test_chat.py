"""make chat with a tiny real model: one answer, a conversation, and a missing model."""

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.errors import EnvironmentProblem
from scripts import chat


@pytest.fixture(scope="module")
def model(tmp_path_factory: Any) -> Any:
    """A Qwen2 of random weights with a short memory."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from rlhf_pipeline.models.tokenizer import make_tokenizer

    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(400, 100)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=100,
        eos_token_id=tokenizer.eos_token_id,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def workspace(tmp_path: Any, monkeypatch: Any) -> None:
    shutil.copy(Path(__file__).parents[3] / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)


def ask(monkeypatch: Any, *arguments: str) -> None:
    monkeypatch.setattr("sys.argv", ["chat", *arguments])
    chat.main()


def test_one_prompt_gives_the_same_greedy_answer_twice(model: Any, capsys: Any, monkeypatch: Any) -> None:
    answers = []
    for _ in range(2):
        ask(monkeypatch, "My mirror is broken.", "--model", str(model), "--temperature", "0")
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    assert answers[0].strip()


def test_lines_are_one_conversation_until_an_empty_one(model: Any, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hi\nAgain\n\nnever read\n"))
    ask(monkeypatch, "--model", str(model), "--temperature", "0")
    assert len(capsys.readouterr().out.splitlines()) >= 2
    assert sys.stdin.read() == "never read\n"


def test_a_folder_without_model_is_named(tmp_path: Any, monkeypatch: Any) -> None:
    with pytest.raises(EnvironmentProblem, match="nowhere"):
        ask(monkeypatch, "Hi", "--model", str(tmp_path / "nowhere"))
