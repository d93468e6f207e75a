"""One YAML 1.2 reader, strict types, every problem at once, overrides by dotted key, stable digests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline.errors import ParamsError
from rlhf_pipeline.params import STAGE_SECTIONS, digest, load, load_stage, parse
from rlhf_pipeline.params.load import read_yaml

from .conftest import Problems


def edited(default_file: Path, folder: Path, old: str, new: str) -> Path:
    text = default_file.read_text(encoding="utf-8")
    changed = re.sub(old, new, text, count=1, flags=re.MULTILINE)
    assert changed != text
    path = folder / "params.yaml"
    path.write_text(changed, encoding="utf-8")
    return path


def test_the_default_file_gives_typed_values(default_file: Path) -> None:
    params = load(default_file)
    assert (params.version, params.ppo.adv_estimator, params.ppo.kl.loss.estimator) == (1, "gae", "k3")
    assert isinstance(params.ppo.actor.lr, float)
    assert params.data.sources[0].kind == "synthetic"


@pytest.mark.parametrize(("written", "read"), [("1e-5", 1e-5), ("1E-5", 1e-5), ("5.0e-4", 5e-4), (".5", 0.5)])
def test_a_float_may_be_written_with_an_exponent_and_no_point(
    default_file: Path, tmp_path: Path, written: str, read: float
) -> None:
    path = edited(default_file, tmp_path, r"actor: \{lr: [^,]+", f"actor: {{lr: {written}")
    assert load(path).ppo.actor.lr == read


def test_an_integer_does_for_a_float_and_not_the_other_way(
    values: dict[str, Any], problems: Problems
) -> None:
    assert parse(values, {"ppo.gamma": 1}).ppo.gamma == 1.0
    assert problems({"seed": 7.0}) == ["seed: should be a valid integer, got 7.0"]


def test_a_leading_zero_is_decimal_as_in_yaml_1_2(default_file: Path, tmp_path: Path) -> None:
    assert load(edited(default_file, tmp_path, r"^seed: \d+", "seed: 012")).seed == 12


@pytest.mark.parametrize("word", ["on", "yes", "off", "No"])
def test_yaml_1_1_booleans_are_words(default_file: Path, tmp_path: Path, word: str) -> None:
    path = edited(default_file, tmp_path, "enforce_eager: true", f"enforce_eager: {word}")
    with pytest.raises(
        ParamsError, match=f"ppo.rollout.enforce_eager: should be a valid boolean, got '{word}'"
    ):
        load(path)


def test_off_is_a_guard_action_and_not_false(default_file: Path, tmp_path: Path) -> None:
    path = edited(default_file, tmp_path, r"non_finite: \w+", "non_finite: off")
    assert load(path).guards.non_finite == "off"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nppo: {}\nseed: 2\n", r'line 3, column 1: not valid YAML: found duplicate key "seed"'),
        ("a: [1, 2\n", r"line \d, column \d: not valid YAML: expected ',' or '\]'"),
        ("a: b: c\n", r"line 1, column 5: not valid YAML: mapping values are not allowed here"),
        ("a:\n\tb: 1\n", r"line 2, column 1: not valid YAML"),
        ("a: !!python/object:os.system x\n", r"not valid YAML: could not determine a constructor"),
        ("a: *nowhere\n", r"not valid YAML: found undefined alias"),
        ("a: 1\n---\nb: 2\n", r"not valid YAML: but found another document"),
        ("a: 2024-13-45\n", r"not valid YAML: month must be in 1..12"),
        ("a: \x00\n", r"not valid YAML: unacceptable character"),
        ("", r"must hold a mapping at its top level, got NoneType"),
        ("- 1\n", r"must hold a mapping at its top level, got list"),
    ],
)
def test_a_malformed_file_is_named_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ParamsError, match=message) as caught:
        read_yaml(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="does not exist; restore it or run `make preset NAME=tiny-cpu`"):
        load(tmp_path / "absent.yaml")
    with pytest.raises(ParamsError, match="cannot be read: Is a directory"):
        load(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"seed: 1 # caf\xe9\n")
    with pytest.raises(ParamsError, match="is not UTF-8 text"):
        load(latin)


def test_a_byte_order_mark_does_no_harm(default_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("\ufeff" + default_file.read_text(encoding="utf-8"), encoding="utf-8")
    assert load(path) == load(default_file)


def test_every_problem_is_reported_at_once_with_its_key(values: dict[Any, Any]) -> None:
    values["sede"] = values.pop("seed")
    del values["hardware"]["nnodes"]
    values["hardware"]["n_gpus_per_node"] = True
    values["ppo"]["gamma"] = float("nan")
    values["ppo"]["lam"] = "0.95"
    values["ppo"]["actor"]["lr"] = -1e-4
    values["sft"] = None
    values["tracking"]["backends"] = ["wandb", "wandbb"]
    values[3] = "x"
    with pytest.raises(ParamsError) as caught:
        parse(values, {"ppo.nowhere.coef": 1}, where="my.yaml")
    head, *lines = str(caught.value).splitlines()
    assert head == "my.yaml: 11 problems"
    assert sorted(line.strip() for line in lines) == sorted(
        [
            "ppo.nowhere.coef: no such key to override",
            "seed: missing",
            "sede: unknown key; did you mean seed?",
            "hardware.nnodes: missing",
            "hardware.n_gpus_per_node: should be a valid integer, got True",
            "ppo.gamma: should be a finite number, got nan",
            "ppo.lam: should be a valid number, got '0.95'",
            "ppo.actor.lr: should be greater than 0, got -0.0001",
            "sft: should be a section with keys, got None",
            "tracking.backends.1: should be 'wandb', 'jsonl', 'tensorboard' or 'mlflow', got 'wandbb'",
            "3: keys should be strings, got 3",
        ]
    )


def test_the_alternatives_of_a_key_stand_on_one_line(problems: Problems) -> None:
    assert problems({"ppo.validation.every": 2.5}) == [
        "ppo.validation.every: should be 'epoch' or should be a valid integer, got 2.5"
    ]


def test_a_long_value_is_shortened(problems: Problems) -> None:
    (line,) = problems({"seed": "x" * 500})
    assert len(line) < 150
    assert line.endswith("xxx...")


def test_an_override_reaches_into_sections_and_lists(values: dict[str, Any]) -> None:
    params = parse(values, {"ppo.kl.loss.coef": 0.25, "data.sources.0.name": "mine", "seed": 3})
    assert (params.ppo.kl.loss.coef, params.data.sources[0].name, params.seed) == (0.25, "mine", 3)
    assert values["seed"] != 3, "the caller's mapping is not changed"


def test_a_later_override_wins_and_a_section_can_be_replaced_whole(values: dict[str, Any]) -> None:
    loss = {"coef": 0.5, "estimator": "k1"}
    params = parse(values, {"ppo.kl.loss": loss, "ppo.kl.loss.coef": 0.125})
    assert (params.ppo.kl.loss.coef, params.ppo.kl.loss.estimator) == (0.125, "k1")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("ppo.kl.lose.coef", "ppo.kl.lose.coef: no such key to override"),
        ("ppo.kl.loss.coeff", "ppo.kl.loss.coeff: unknown key; did you mean coef?"),
        ("seed.deeper", "seed.deeper: no such key to override"),
        ("data.sources.9", "data.sources.9: no such key to override"),
        ("data.sources.first.name", "data.sources.first.name: no such key to override"),
    ],
)
def test_an_override_of_a_key_that_is_not_there_is_refused(
    problems: Problems, key: str, message: str
) -> None:
    assert problems({key: 1}) == [message]


def test_an_override_is_typed_like_the_file(problems: Problems) -> None:
    assert problems({"ppo.kl.loss.coef": "0.01"}) == [
        "ppo.kl.loss.coef: should be a valid number, got '0.01'"
    ]


def test_params_are_frozen(default_file: Path) -> None:
    params = load(default_file)
    for key in ("seed", "ppo"):
        with pytest.raises(ValueError, match="frozen"):
            setattr(params, key, 1)


def test_the_digest_follows_the_values_and_not_their_order(values: dict[str, Any]) -> None:
    params = parse(values)
    reordered = parse(dict(reversed(values.items())))
    assert digest(params, ["ppo", "seed"]) == digest(reordered, ["seed", "ppo"])
    assert re.fullmatch("[0-9a-f]{16}", digest(params, ["seed"]))
    changed = parse(values, {"ppo.kl.loss.coef": 0.123})
    assert digest(changed, ["ppo"]) != digest(params, ["ppo"])
    assert digest(changed, ["sft", "data.max_prompt_tokens"]) == digest(
        params, ["sft", "data.max_prompt_tokens"]
    )


@pytest.mark.parametrize("stage", sorted(STAGE_SECTIONS))
def test_a_stage_s_digest_ignores_what_the_stage_does_not_read(
    default_file: Path, tmp_path: Path, stage: str
) -> None:
    params, before = load_stage(stage, default_file)
    assert params == load(default_file)
    read = set(STAGE_SECTIONS[stage])

    def changes(key: str) -> bool:
        text = default_file.read_text(encoding="utf-8")
        (value,) = re.findall(rf"\b{key}: (\d+)", text)
        changed = edited(default_file, tmp_path, rf"\b{key}: \d+", f"{key}: {int(value) - 1}")
        return load_stage(stage, changed)[1] != before

    assert changes("n_shown") == ("evaluate" in read)
    assert changes("seed") == ("seed" in read)
    assert changes("max_response_tokens") == bool(read & {"data", "data.max_response_tokens"})
