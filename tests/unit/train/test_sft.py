"""SFT: the configuration fits the installed verl, batches are checked, a real small run publishes a model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlhf_pipeline import paths
from rlhf_pipeline.errors import DataError, ParamsError
from rlhf_pipeline.params import Params, load
from rlhf_pipeline.publish import verify
from rlhf_pipeline.train.fine_tune import FineTuning, steps
from rlhf_pipeline.train.ranks import usable_cores
from rlhf_pipeline.train.sft import run_sft
from rlhf_pipeline.train.sft_config import CONFIG, EXTRA_KEYS, SFTPaths, sft_config
from rlhf_pipeline.verl_config import compose

PRESETS = sorted((Path(__file__).parents[3] / "presets").glob("*.yaml"))
RUN = SFTPaths(*(Path("/run") / name for name in SFTPaths._fields))


@pytest.mark.parametrize("preset", PRESETS, ids=lambda path: path.stem)
def test_verl_knows_every_key(preset: Path) -> None:
    params = load(preset)
    device = "cpu" if "cpu" in preset.stem else "cuda"
    keys = sft_config(params, params.sft, RUN, device, total_steps=10)
    config = compose(keys, extra_keys=EXTRA_KEYS, name=CONFIG)
    assert config.data.train_batch_size == params.sft.batch_size
    assert config.optim.lr == params.sft.optimiser.lr
    assert config.engine.dtype == ("float32" if device == "cpu" else params.hardware.dtype)


def rows_file(path: Path, n: int) -> Path:
    pq.write_table(pa.table({"x": list(range(n))}), path)
    return path


def test_steps_are_whole_batches_times_epochs_up_to_the_limit(tmp_path: Path) -> None:
    def run(train: Path, validation: Path, **sft: int | None) -> FineTuning:
        overrides = {f"sft.{name}": value for name, value in sft.items()}
        params = load(PRESETS[0].with_name("tiny-cpu.yaml"), {"sft.batch_size": 32, **overrides})
        return FineTuning("sft", "sft", params.sft, tmp_path, train, validation, tmp_path)

    train, validation = rows_file(tmp_path / "t", 100), rows_file(tmp_path / "v", 32)
    assert steps(run(train, validation, epochs=3)) == 9
    assert steps(run(train, validation, epochs=3, max_steps=5)) == 5
    with pytest.raises(ParamsError, match=r"sft\.batch_size: 32 .* has only 31 rows"):
        steps(run(train, rows_file(tmp_path / "w", 31)))
    with pytest.raises(DataError, match="does not exist"):
        steps(run(train, tmp_path / "absent"))


def test_cores_stay_within_the_containers_quota(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("100000 100000\n")
    assert usable_cores(quota) == 1
    quota.write_text("max 100000\n")
    assert usable_cores(quota) == usable_cores(tmp_path / "absent") >= 1


def test_no_steps_publish_the_base_model(workspace: Path, small_params: Params) -> None:
    section = small_params.sft.model_copy(update={"max_steps": 0})
    run_sft(small_params.model_copy(update={"sft": section}), "digest")
    base, sft = (folder / "model.safetensors" for folder in (paths.BASE_MODEL, paths.SFT_MODEL))
    assert base.read_bytes() == sft.read_bytes()
    verify(paths.SFT_MODEL)


@pytest.mark.slow
def test_a_real_run_lowers_the_loss_and_publishes_an_ordinary_model(
    workspace: Path, small_params: Params
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run_sft(small_params, "digest")
    verify(paths.SFT_MODEL)
    model, report = AutoModelForCausalLM.from_pretrained(paths.SFT_MODEL, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert str(model.dtype) == "torch.float32"
    assert AutoTokenizer.from_pretrained(paths.SFT_MODEL).eos_token_id == model.config.eos_token_id
    figures = json.loads(paths.metrics("sft").read_text())
    with paths.curve("sft").open() as file:
        curve = list(csv.DictReader(file))
    assert [row["step"] for row in curve] == ["1", "2", "3", "4"]
    validated = {row["step"]: float(row["validation_loss"]) for row in curve if row["validation_loss"]}
    assert set(validated) == {"2", "4"}
    assert validated["4"] < validated["2"]
    assert figures["best_step"] == 4
    assert figures["validation_loss"] == pytest.approx(validated["4"], rel=1e-5)
    [kept] = (workspace / paths.SCRATCH / "sft").iterdir()
    assert (kept / "published.json").is_file()
    assert [step.name for step in (kept / "ledger").glob("global_step_*")] == ["global_step_4"]
