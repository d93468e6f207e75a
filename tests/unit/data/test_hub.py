"""hf:// sources through the datasets library: a local folder loads, what cannot be loaded is one error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlhf_pipeline.data.readers.hub import _refuse_outside, read_hub
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


def outside(tmp_path: Path) -> tuple[Path, Path]:
    """data.raw with an empty set in it, and a file beside data.raw that must never be read."""
    raw, secret = tmp_path / "raw", tmp_path / "secret" / "train.jsonl"
    (raw / "set").mkdir(parents=True)
    secret.parent.mkdir()
    secret.write_text(json.dumps(PAIRS[0]) + "\n")
    return raw, secret


@pytest.mark.parametrize("name", ["../secret", "set/../../secret", "{secret}"])
def test_a_name_that_leads_outside_is_refused(name: str, tmp_path: Path) -> None:
    raw, secret = outside(tmp_path)
    with pytest.raises(DataError, match=r"must be a name on the Hub or a folder inside data\.raw"):
        list(read_hub(name.format(secret=secret.parent), raw, {}))


@pytest.mark.parametrize(
    "named", ["../../secret/train.jsonl", "{secret}", "https://example.invalid/train.jsonl"]
)
def test_files_outside_that_a_set_names_are_refused(named: str, tmp_path: Path) -> None:
    raw, secret = outside(tmp_path)
    configs = f"configs:\n- config_name: default\n  data_files: {named.format(secret=secret)}\n"
    (raw / "set" / "README.md").write_text(f"---\n{configs}---\n")
    with pytest.raises(DataError, match=r"hf://set: (names a file outside of it|cannot be loaded)"):
        list(read_hub("set", raw, {}))


def test_links_that_lead_outside_are_refused(tmp_path: Path) -> None:
    raw, secret = outside(tmp_path)
    (raw / "set" / "train.jsonl").symlink_to(secret)
    (raw / "linked").symlink_to(secret.parent)
    for name in ("set", "linked"):
        with pytest.raises(DataError, match=rf"hf://{name}: names a file outside of it"):
            list(read_hub(name, raw, {}))


@pytest.mark.parametrize(
    "file",
    [
        "/etc/hostname",
        "https://example.invalid/a.jsonl",
        "hf://datasets/a/b@c/../../d",
        "file:///etc/hostname",
    ],
)
def test_a_set_of_the_hub_names_only_files_of_the_hub(file: str) -> None:
    _refuse_outside("hf://datasets/a/b@c0ffee/train.jsonl", "a/b", None)
    with pytest.raises(DataError, match="hf://a/b: names a file outside of it"):
        _refuse_outside(file, "a/b", None)


def test_a_path_in_an_image_column_is_not_opened(tmp_path: Path) -> None:
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw, secret = outside(tmp_path)
    features = datasets.Features({"prompt": datasets.Value("string"), "image": datasets.Image()})
    image = {"bytes": None, "path": str(secret)}
    table = pa.Table.from_pylist([{"prompt": "Why?", "image": image}], features.arrow_schema)
    pq.write_table(table, raw / "set" / "train.parquet")
    [row] = read_hub("set", raw, {})
    assert row.values["image"] == image
