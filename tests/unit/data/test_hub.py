"""hf:// sources through the datasets library: a local folder loads, what cannot be loaded is one error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlhf_pipeline.data.readers.hub import read_hub
from rlhf_pipeline.errors import DataError

pytestmark = pytest.mark.slow
PAIRS = [{"prompt": f"Q{n}", "chosen": "a", "rejected": "b"} for n in range(3)]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "set").mkdir()
    for split, rows in (("train", PAIRS), ("test", PAIRS[:1])):
        (tmp_path / "set" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_local_folder_loads_by_split(tmp_path: Path) -> None:
    rows = list(read_hub("set", tmp_path, {}))
    assert [row.values for row in rows] == PAIRS
    assert str(rows[2].place) == "set (train), row 3"
    assert [row.values for row in read_hub("set", tmp_path, {"split": "test"})] == PAIRS[:1]


def test_a_saved_data_set_loads_from_its_folder(tmp_path: Path) -> None:
    import datasets

    from rlhf_pipeline.data.readers import files_of, read

    datasets.Dataset.from_list(PAIRS).save_to_disk(str(tmp_path / "saved"))
    [file] = files_of(tmp_path, "saved")
    assert [row.values for row in read(file, tmp_path, {})] == PAIRS


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("set", {"split": "dev"}, r"hf://set: cannot be loaded: .*dev"),
        ("nobody/nothing-at-all", {}, r"hf://nobody/nothing-at-all: cannot be loaded: "),
    ],
)
def test_what_cannot_be_loaded_is_one_error(
    name: str, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        list(read_hub(name, tmp_path, options))
