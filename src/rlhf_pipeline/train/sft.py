"""Supervised fine-tuning with verl's SFT trainer: prepares the job, runs it, publishes models/sft.

Imports neither torch nor verl; sft_driver.py does, in processes of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from .. import paths, publish
from ..backend.versions import check_versions
from ..checkpoints.book import read_book
from ..checkpoints.disk import checkpoint_bytes, require_run
from ..checkpoints.ledger import Ledger
from ..checkpoints.published import forget_published, mark_published
from ..checkpoints.retention import bound_runs
from ..curves import curve
from ..errors import DataError, ParamsError
from ..hardware import resolve_device
from ..metrics_log import MetricsLog, merged
from ..model_card import write_model_card
from ..models.weights import n_parameters, record_dtype
from ..params import Params
from ..progress import StageProgress
from ..tracking import Tracker
from ..verl_config import compose
from .ranks import run_module
from .sft_config import CONFIG, EXTRA_KEYS, SFTPaths, sft_config

NAMES = {
    "train/loss": "train_loss",
    "val/loss": "validation_loss",
    "train/grad_norm": "grad_norm",
    "train/lr": "lr",
    "train/global_tokens": "tokens",
}
COLUMNS = ("step", *NAMES.values())


def run_sft(params: Params, digest: str) -> None:
    """Train, or take the base model as it is when sft.max_steps is 0, and publish.

    Raises:
        ParamsError: when a batch is larger than the data.
        StageError: when training fails; committed steps stay for the next run.
    """
    started = time.monotonic()
    facts = {"stage": "sft", "params_digest": digest, "seed": params.seed}
    publish.verify(paths.BASE_MODEL)
    if params.sft.max_steps == 0:
        with publish.publishing(paths.SFT_MODEL, {**facts, "step": 0}) as out:
            shutil.copytree(
                paths.BASE_MODEL, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(publish.MANIFEST)
            )
        publish.write_text(paths.curve("sft"), ",".join(COLUMNS) + "\n")
        publish.write_json(paths.metrics("sft"), {"steps": 0})
        return
    check_versions()
    device = resolve_device(params)
    workspace = paths.workspace()
    train_file = workspace / paths.table(paths.VALIDATED, "sft", "train")
    validation_file = workspace / paths.table(paths.VALIDATED, "sft", "validation")
    total_steps = steps(params, train_file, validation_file)
    scratch = workspace / paths.SCRATCH / "sft" / _state_name(digest)
    forget_published(scratch)
    job = _write_job(params, digest, scratch, (train_file, validation_file), device, total_steps)
    bound_runs(scratch.parent, scratch, keep_others=1)
    startup_s = 0.0
    book, _ = read_book(scratch / "ledger")
    if book is None or book.finished is None:
        require_run(scratch, checkpoint_bytes(n_parameters(paths.BASE_MODEL)), keep_newest=1)
        with Tracker(params, "sft") as tracker, StageProgress("sft", total_steps) as progress:
            progress.note("starting verl's SFT trainer")

            def on_metrics(step: int, metrics: dict[str, Any]) -> None:
                nonlocal startup_s
                startup_s = startup_s or time.monotonic() - started
                found = plain(metrics)
                tracker.log(step, found)
                shown = ("train_loss", "validation_loss")
                progress.update(step, **{name: found[name] for name in shown if name in found})

            with MetricsLog(scratch / "metrics", on_metrics) as log:
                os.environ["VERL_FILE_LOGGER_PATH"] = str(log.path)
                run_module("rlhf_pipeline.train.sft_driver", [str(job)], params, device, "sft", None)
    _publish(params, digest, scratch, facts, total_steps, started, startup_s)


def steps(params: Params, train_file: Path, validation_file: Path) -> int:
    """Optimiser steps of the run.

    Raises:
        DataError: when a file is missing.
        ParamsError: when the rows of either file do not fill one batch (verl drops what is left over).
    """
    import pyarrow.parquet as pq

    batches = {}
    for file in (train_file, validation_file):
        if not file.exists():
            raise DataError(f"{file} does not exist; run `dvc repro validate_data` first")
        rows = pq.ParquetFile(file).metadata.num_rows
        batches[file] = rows // params.sft.batch_size
        if batches[file] == 0:
            raise ParamsError(
                f"sft.batch_size: {params.sft.batch_size} sequences a step, but {file} has only {rows} rows"
            )
    total = batches[train_file] * params.sft.epochs
    return total if params.sft.max_steps is None else min(total, params.sft.max_steps)


def plain(metrics: dict[str, Any]) -> dict[str, float]:
    """verl's metrics under the curve's names."""
    return {name: float(metrics[key]) for key, name in NAMES.items() if key in metrics}


def _write_job(
    params: Params, digest: str, scratch: Path, files: tuple[Path, Path], device: str, total_steps: int
) -> Path:
    from omegaconf import OmegaConf

    workspace = paths.workspace()
    run_paths = SFTPaths(
        train_file=files[0],
        validation_file=files[1],
        model=workspace / paths.BASE_MODEL,
        checkpoints=scratch / "ledger",
    )
    config = compose(sft_config(params, run_paths, device, total_steps), extra_keys=EXTRA_KEYS, name=CONFIG)
    publish.write_text(scratch / "verl.yaml", OmegaConf.to_yaml(config))
    job = {
        "config_file": str(scratch / "verl.yaml"),
        "ledger": str(scratch / "ledger"),
        "params_digest": digest,
        "world_size": params.hardware.n_gpus_per_node,
    }
    publish.write_json(scratch / "job.json", job)
    return scratch / "job.json"


def _state_name(digest: str) -> str:
    inputs = [publish.sha256_of(folder / publish.MANIFEST) for folder in (paths.BASE_MODEL, paths.VALIDATED)]
    return hashlib.sha256("\n".join([digest, *inputs]).encode()).hexdigest()[:16]


def _publish(
    params: Params, digest: str, scratch: Path, facts: dict[str, Any], total_steps: int, started: float,
    startup_s: float,
) -> None:  # fmt: skip
    with Ledger(
        scratch / "ledger",
        params_digest=digest,
        world_size=params.hardware.n_gpus_per_node,
        keep_newest=1,
    ) as ledger:
        best = ledger.restore_best()
        rows = {step: plain(metrics) for step, metrics in merged(scratch / "metrics").items()}
        figures = {
            "steps": total_steps,
            "best_step": best.step,
            "validation_loss": -(best.entry.score or 0.0),
            "train_loss": [row["train_loss"] for row in rows.values() if "train_loss" in row][-1],
            "tokens": sum(row.get("tokens", 0.0) for row in rows.values()),
            "wall_s": round(time.monotonic() - started, 2),
            "startup_s": round(startup_s, 2),
        }
        with publish.publishing(paths.SFT_MODEL, {**facts, "step": best.step}) as out:
            publish.copy_model(best.folder / "huggingface", out)
            record_dtype(out)
            parents = {"starting weights": paths.BASE_MODEL, "data": paths.VALIDATED}
            write_model_card(out, "sft", params, figures, parents)
        publish.write_text(paths.curve("sft"), curve(COLUMNS, rows))
        publish.write_json(paths.metrics("sft"), figures)
        mark_published(scratch, ledger, best.step)
