"""Best-of-n's candidates: which logged responses there are, which of them wins, who is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline import paths, records
from rlhf_pipeline.errors import DataError, ParamsError
from rlhf_pipeline.params import load
from rlhf_pipeline.rewards.loading import load_rule, scored
from rlhf_pipeline.train.candidates import Candidate, best_of, logged, prompts_of

PRESET = Path(__file__).parents[3] / "presets/tiny-cpu.yaml"
RULED = {"ppo.reward.source": "rule", "ppo.reward.rule": "gsm8k"}


def prompt(identifier: str, truth: str = "7") -> dict[str, Any]:
    return {
        "data_source": "x",
        "prompt": [{"role": "user", "content": identifier}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"prompt_id": identifier, "split": "train", "index": 0},
    }


def pair(identifier: str, chosen: str, rejected: str) -> dict[str, Any]:
    return {
        "prompt_id": identifier,
        "prompt": [{"role": "user", "content": identifier}],
        "chosen": chosen,
        "rejected": rejected,
        "source": "x",
        "margin": None,
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    tables = {
        "prompts": [prompt("b"), prompt("a"), prompt("b"), prompt("c")],
        "preferences": [pair("a", "one", "two"), pair("a", "three", "two"), pair("b", "four", " ")],
    }
    for name, rows in tables.items():
        file = paths.table(tmp_path, name, "train")
        file.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows, records.SCHEMAS[name]), file)
    return tmp_path


def test_prompts_come_once_in_the_order_of_their_ids(data: Path) -> None:
    assert [row["extra_info"]["prompt_id"] for row in prompts_of("train", None, data)] == ["a", "b", "c"]
    assert len(prompts_of("train", 2, data)) == 2
    with pytest.raises(DataError, match=r"validation.*does not exist"):
        prompts_of("validation", None, data)


def test_logged_candidates_are_the_different_responses_to_a_prompt(data: Path) -> None:
    groups = logged(prompts_of("train", None, data), "train", data)
    assert [[one.text for one in group] for group in groups] == [["one", "two", "three"], ["four"], []]


def test_the_best_is_the_first_of_equals_and_a_single_candidate_is_no_choice() -> None:
    rows = [prompt("a"), prompt("b"), prompt("c", "8")]
    texts = [["#### 1", "#### 7", "it is 7"], ["#### 7"], ["#### 1", "#### 2"]]
    groups = [[Candidate(text, None) for text in group] for group in texts]
    first, second = best_of(load(PRESET, RULED), rows, groups)
    assert (first.row, first.text, first.score, first.n) == (rows[0], "#### 7", 1.0, 3)
    assert first.mean == pytest.approx(2 / 3)
    assert (second.row, second.text, second.score) == (rows[2], "#### 1", 0.0)


def test_a_function_of_the_users_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLHF_WORKSPACE", str(tmp_path))
    (tmp_path / "mine.py").write_text(
        "def long(data_source, solution_str, ground_truth, extra_info):\n"
        "    return {'score': len(solution_str) + len(extra_info['prompt'])}\n"
    )
    own = {"ppo.reward.source": "function", "ppo.reward.function_path": "mine.py"}
    params = load(PRESET, own | {"ppo.reward.function_name": "long"})
    [found] = best_of(params, [prompt("a")], [[Candidate("aa", None), Candidate("aaa", None)]])
    assert (found.text, found.score, found.mean) == ("aaa", 4.0, 3.5)
    with pytest.raises(ParamsError, match="has no function short"):
        load_rule(f"function:{tmp_path / 'mine.py'}:short")
    with pytest.raises(ParamsError, match="is not a Python file"):
        load_rule(f"function:{tmp_path / 'absent.py'}:long")


def test_a_rule_by_name() -> None:
    assert scored(load_rule("rule:gsm8k"), prompt("a"), "so it is #### 7") == 1.0
