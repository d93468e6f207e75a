"""RewardBench files of both versions, their scores by hand, and a real tiny reward model on one."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline.errors import DataError
from rlhf_pipeline.evaluation import rewardbench
from rlhf_pipeline.evaluation.rewardbench import (
    Item,
    margins_of,
    read_items,
    report,
    section_scores,
    texts_of,
)

VERSION_1 = [
    {"prompt": "p", "chosen": "good", "rejected": "bad", "subset": "math-prm", "id": 1},
    {"prompt": "q", "chosen": "fine", "rejected": "poor", "subset": "hep-go", "id": 2},
]
VERSION_2 = [{"prompt": "p", "chosen": ["a", "b"], "rejected": ["c", "d", "e"], "subset": "Focus"}]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".json", ".jsonl"])
def test_every_file_type_gives_the_same_items(suffix: str, tmp_path: Any) -> None:
    found = read_items(write(tmp_path / f"bench{suffix}", VERSION_1))
    assert found[0] == Item("p", ["good"], ["bad"], "math-prm")
    assert read_items(write(tmp_path / f"two{suffix}", VERSION_2))[0].rejected == ["c", "d", "e"]


@pytest.mark.parametrize(
    "row", [{"prompt": "p", "chosen": "x"}, {"prompt": None, "chosen": "x", "rejected": "y"},
            {"prompt": "p", "chosen": [], "rejected": "y"}]
)  # fmt: skip
def test_a_bad_row_is_named(row: Any, tmp_path: Any) -> None:
    with pytest.raises(DataError, match="row 2"):
        read_items(write(tmp_path / "bench.jsonl", [VERSION_1[0], row]))


@pytest.mark.parametrize(
    ("name", "content"), [("a.parquet", "text"), ("a.json", "{}"), ("a.jsonl", "{"), ("a.jsonl", "")]
)
def test_a_bad_file_is_named(name: str, content: str, tmp_path: Any) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=name):
        read_items(tmp_path / name)


def test_the_best_of_each_side_decides() -> None:
    items = [Item("p", ["a", "b"], ["c"], "s"), Item("q", ["d"], ["e", "f"], "s")]
    assert texts_of(items)[1] == ["a", "b", "c", "d", "e", "f"]
    margins = margins_of(np.array([1.0, 3.0, 2.0, 0.0, 0.5, 0.2]), items)
    assert margins.tolist() == [1.0, -0.5]


def test_math_counts_as_much_as_all_code() -> None:
    code = {
        f"hep-{language}": {"accuracy": 0.5, "pairs": 10}
        for language in ("cpp", "go", "java", "js", "python")
    }
    subsets = {**code, "hep-rust": {"accuracy": 1.0, "pairs": 10}, "math-prm": {"accuracy": 0.9, "pairs": 7}}
    expected = (0.9 + (5 * 0.5 + 1.0) / 6) / 2
    assert section_scores(subsets) == {"Reasoning": pytest.approx(expected)}


def test_report_by_subset() -> None:
    items = [Item("p", ["a"], ["b"], "x"), Item("p", ["a"], ["b"], "y")]
    found = report(items, np.array([1.0, -1.0]), 100, seed=1)
    assert found["accuracy"] == 0.5
    assert found["subsets"]["y"] == {"accuracy": 0.0, "pairs": 1}
    assert found["sections"] == {}


def test_command_scores_a_file(tiny: Any, tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    shutil.copy(Path(__file__).parents[3] / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "bench.jsonl", VERSION_1)
    rewardbench.main([str(file), "--reward-model", str(tiny.reward_model), "--out", "found.json"])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["n_rows"] == 2
    assert found["accuracy"] in (0.0, 0.5, 1.0)
    assert "math-prm" in capsys.readouterr().out
