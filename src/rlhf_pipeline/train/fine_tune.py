"""Runs verl's SFT trainer over two files of conversations, into a ledger; the caller publishes the best step.

What the sft stage and best-of-n distillation share. Imports neither torch nor verl; sft_driver.py does,
in processes of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import paths, publish
from ..backend.versions import check_versions
from ..checkpoints.book import read_book
from ..checkpoints.disk import checkpoint_bytes, require_run
from ..checkpoints.ledger import Ledger
from ..checkpoints.lock import FolderLock
from ..errors import DataError, ParamsError
from ..hardware import resolve_device
from ..metrics_log import MetricsLog
from ..models.weights import n_parameters
from ..params import Params
from ..params.training import SFT
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


class FineTuning(NamedTuple):
    """One run of the trainer."""

    stage: str
    """The stage it belongs to, for logs, progress and tracking."""
    section: str
    """Where its settings stand in params.yaml, for messages."""
    settings: SFT
    model: Path
    """The starting weights, relative to the workspace."""
    train_file: Path
    validation_file: Path
    scratch: Path
    """Its state, from which a killed run goes on."""

    def open_ledger(self, params: Params, digest: str) -> Ledger:
        """The ledger that the trainer's steps are in."""
        world_size = params.hardware.n_gpus_per_node
        return Ledger(self.scratch / "ledger", params_digest=digest, world_size=world_size, keep_newest=1)


def fine_tune(params: Params, digest: str, run: FineTuning) -> tuple[int, float]:
    """Train, or go on with, `run`; returns its optimiser steps and the seconds before the first one.

    Raises:
        ParamsError: when a batch is larger than the data.
        StageError: when training fails; committed steps stay for the next run.
        CheckpointError: another process runs it.
    """
    check_versions()
    began, startup_s = time.monotonic(), 0.0
    device = resolve_device(params)
    total_steps = steps(run)
    job = _write_job(params, digest, run, device, total_steps)
    book, _ = read_book(run.scratch / "ledger")
    if book is not None and book.finished is not None:
        return total_steps, startup_s
    require_run(run.scratch, checkpoint_bytes(n_parameters(run.model)), keep_newest=1)
    with (
        FolderLock(run.scratch),
        Tracker(params, run.stage) as tracker,
        StageProgress(run.stage, total_steps) as progress,
    ):
        progress.note("starting verl's SFT trainer")

        def on_metrics(step: int, metrics: dict[str, Any]) -> None:
            nonlocal startup_s
            startup_s = startup_s or time.monotonic() - began
            found = plain(metrics)
            tracker.log(step, found)
            shown = ("train_loss", "validation_loss")
            progress.update(step, **{name: found[name] for name in shown if name in found})

        with MetricsLog(run.scratch / "metrics", on_metrics) as log:
            os.environ["VERL_FILE_LOGGER_PATH"] = str(log.path)
            run_module("rlhf_pipeline.train.sft_driver", [str(job)], params, device, run.stage, None)
    return total_steps, startup_s


def steps(run: FineTuning) -> int:
    """Optimiser steps of the run.

    Raises:
        DataError: when a file is missing.
        ParamsError: when the rows of either file do not fill one batch (verl drops what is left over).
    """
    import pyarrow.parquet as pq

    settings, batches = run.settings, {}
    for file in (run.train_file, run.validation_file):
        if not file.exists():
            raise DataError(f"{file} does not exist; run `dvc repro validate_data` first")
        rows = pq.ParquetFile(file).metadata.num_rows
        batches[file] = rows // settings.batch_size
        if batches[file] == 0:
            raise ParamsError(
                f"{run.section}.batch_size: {settings.batch_size} sequences a step, but {file} has only"
                f" {rows} rows"
            )
    total = batches[run.train_file] * settings.epochs
    return total if settings.max_steps is None else min(total, settings.max_steps)


def plain(metrics: dict[str, Any]) -> dict[str, float]:
    """verl's metrics under the curve's names."""
    return {name: float(metrics[key]) for key, name in NAMES.items() if key in metrics}


def figures(rows: Mapping[int, Mapping[str, float]], total_steps: int, best: Any) -> dict[str, float]:
    """The run's flat figures; `best` is the ledger's restored best step."""
    return {
        "steps": total_steps,
        "best_step": best.step,
        "validation_loss": -(best.entry.score or 0.0),
        "train_loss": [row["train_loss"] for row in rows.values() if "train_loss" in row][-1],
        "tokens": int(sum(row.get("tokens", 0.0) for row in rows.values())),
    }


def _write_job(params: Params, digest: str, run: FineTuning, device: str, total_steps: int) -> Path:
    from omegaconf import OmegaConf

    run_paths = SFTPaths(
        train_file=run.train_file,
        validation_file=run.validation_file,
        model=paths.workspace() / run.model,
        checkpoints=run.scratch / "ledger",
    )
    keys = sft_config(params, run.settings, run_paths, device, total_steps)
    config = compose(keys, extra_keys=EXTRA_KEYS, name=CONFIG)
    publish.write_text(run.scratch / "verl.yaml", OmegaConf.to_yaml(config))
    job = {
        "config_file": str(run.scratch / "verl.yaml"),
        "ledger": str(run.scratch / "ledger"),
        "params_digest": digest,
        "world_size": params.hardware.n_gpus_per_node,
    }
    publish.write_json(run.scratch / "job.json", job)
    return run.scratch / "job.json"
