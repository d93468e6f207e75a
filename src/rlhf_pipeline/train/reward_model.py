"""Reward model and judge: prepares TRL's job, runs it, holds it to the gate and publishes the model.

With `evaluate.judge: train` the training pairs are divided by prompt: the judge learns from its share, the
reward model from the rest, so that what judges the policy is not what the policy was trained against.
Imports neither torch nor TRL; reward_driver.py does, in processes of its own.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from pathlib import Path
from typing import Any, Literal, NamedTuple

from .. import paths, publish
from ..checkpoints.book import read_book
from ..checkpoints.disk import checkpoint_bytes, require_run
from ..checkpoints.ledger import Ledger
from ..checkpoints.lock import FolderLock
from ..checkpoints.published import forget_published, mark_published
from ..checkpoints.retention import bound_runs
from ..checkpoints.run_folder import TRL_STEPS
from ..curves import curve
from ..errors import DataError, ParamsError, StageError
from ..hardware import attention, resolve_device
from ..metrics_log import MetricsLog, merged
from ..model_card import write_model_card
from ..models.weights import n_parameters
from ..params import Params
from ..progress import StageProgress
from ..records import is_judges
from ..tracking import Tracker
from .ranks import run_module

NAMES = {
    "loss": "train_loss",
    "accuracy": "train_accuracy",
    "margin": "train_margin",
    "grad_norm": "grad_norm",
    "learning_rate": "lr",
    "num_tokens": "tokens",
    "eval_loss": "validation_loss",
    "eval_accuracy": "pair_accuracy",
    "eval_margin": "margin",
    "eval_mean_reward": "mean_score",
}
SHOWN_FIGURES = ("margin", "mean_score", "validation_loss")
COLUMNS = ("step", *NAMES.values())
MODEL_FILES = (
    "config.json",
    "model.safetensors*",
    "model-*.safetensors",
    "tokenizer*",
    "chat_template*",
    "special_tokens*",
)


class Role(NamedTuple):
    """Which of the two models is made, and from what."""

    stage: Literal["reward_model", "judge"]
    out: Path
    source: str
    """train, path or none."""
    path_key: str
    path: Path
    seed: int
    shuffle_labels: bool


def run_reward_model(params: Params, digest: str) -> None:
    """Make the model that PPO trains against, as reward_model.source says; see `run`."""
    settings = params.reward_model
    run(
        params,
        digest,
        Role(
            "reward_model", paths.REWARD_MODEL, settings.source, "reward_model.path", Path(settings.path),
            params.seed, settings.shuffle_labels,
        ),
    )  # fmt: skip


def run(params: Params, digest: str, role: Role) -> None:
    """Fit, take the given folder, or mark that none is used; then publish.

    Raises:
        StageError: when held-out pair accuracy stays below reward_model.min_pair_accuracy.
        ParamsError, DataError: for a batch larger than the data, or a folder that is no reward model.
    """
    started = time.monotonic()
    facts = {"stage": role.stage, "params_digest": digest, "seed": role.seed}
    if role.source != "train":
        with publish.publishing(role.out, {**facts, "source": role.source}) as out:
            if role.source == "path":
                _take(role.path_key, role.path, out)
        publish.write_text(paths.curve(role.stage), ",".join(COLUMNS) + "\n")
        publish.write_json(paths.metrics(role.stage), {"steps": 0})
        return
    publish.verify(paths.SFT_MODEL)
    device = resolve_device(params)
    scratch = paths.workspace() / paths.SCRATCH / role.stage / _state_name(digest)
    forget_published(scratch)
    job = _job(params, digest, role, scratch, device)
    bound_runs(scratch.parent, scratch, keep_others=1)
    startup_s = 0.0
    book, _ = read_book(scratch / "ledger")
    if book is None or book.finished is None:
        require_run(scratch, checkpoint_bytes(n_parameters(paths.SFT_MODEL)), keep_newest=1)
        with (
            FolderLock(scratch),
            Tracker(params, role.stage) as tracker,
            StageProgress(role.stage, job["total_steps"]) as progress,
        ):
            progress.note("starting TRL's RewardTrainer")

            def on_metrics(step: int, metrics: dict[str, Any]) -> None:
                nonlocal startup_s
                startup_s = startup_s or time.monotonic() - started
                found = plain(metrics)
                tracker.log(step, found)
                shown = ("train_loss", "train_accuracy", "pair_accuracy")
                progress.update(step, **{name: found[name] for name in shown if name in found})

            with MetricsLog(scratch / "metrics", on_metrics) as log:
                publish.write_json(scratch / "job.json", {**job, "metrics": str(log.path)})
                run_module(
                    "rlhf_pipeline.train.reward_driver", [str(scratch / "job.json")], params, device,
                    role.stage, None,
                )  # fmt: skip
    _publish(params, role, scratch, digest, facts, job, started, startup_s)


def plain(metrics: dict[str, Any]) -> dict[str, float]:
    """TRL's metrics under the curve's names."""
    return {name: float(metrics[key]) for key, name in NAMES.items() if key in metrics}


def _job(params: Params, digest: str, role: Role, scratch: Path, device: str) -> dict[str, Any]:
    import pyarrow.parquet as pq

    settings, workspace = params.reward_model, paths.workspace()
    train_file = workspace / paths.table(paths.VALIDATED, "preferences", "train")
    if not train_file.exists():
        raise DataError(f"{train_file} does not exist; run `dvc repro validate_data` first")
    part = pairs_of(role, params)
    prompts = pq.read_table(train_file, columns=["prompt_id"]).column("prompt_id").to_pylist()
    rows = sum(part is None or is_judges(prompt, part["share"]) is part["judge"] for prompt in prompts)
    world = params.hardware.n_gpus_per_node
    steps_per_epoch = rows // settings.batch_size
    if steps_per_epoch == 0:
        raise ParamsError(
            f"reward_model.batch_size: {settings.batch_size} pairs a step, but {train_file} has only"
            f" {rows} rows{'' if part is None else f' for the {role.stage} (evaluate.judge_share)'}"
        )
    total = steps_per_epoch * settings.epochs
    return {
        "model": str(workspace / paths.SFT_MODEL),
        "train_file": str(train_file),
        "validation_file": str(workspace / paths.table(paths.VALIDATED, "preferences", "validation")),
        "ledger": str(scratch / "ledger"),
        "params_digest": digest,
        "world_size": world,
        "seed": role.seed,
        "part": part,
        "shuffle_labels": role.shuffle_labels,
        "total_steps": total if settings.max_steps is None else min(total, settings.max_steps),
        "micro_batch_size": settings.micro_batch_size_per_gpu,
        "gradient_accumulation_steps": settings.batch_size // (settings.micro_batch_size_per_gpu * world),
        "optimiser": settings.optimiser.model_dump(),
        "centre_coef": settings.centre_coef,
        "validate_every_steps": settings.validate_every_steps,
        "gradient_checkpointing": settings.gradient_checkpointing,
        "device": device,
        "bf16": device == "cuda" and params.hardware.dtype == "bfloat16",
        "attention": "sdpa" if attention(params, device) == "torch_varlen" else attention(params, device),
    }


def pairs_of(role: Role, params: Params) -> dict[str, Any] | None:
    """Which training pairs a role may see: all (None), or the judge's share of the prompts or the rest."""
    if params.evaluate.judge != "train":
        return None
    return {"share": params.evaluate.judge_share, "judge": role.stage == "judge"}


def _state_name(digest: str) -> str:
    inputs = [publish.sha256_of(folder / publish.MANIFEST) for folder in (paths.SFT_MODEL, paths.VALIDATED)]
    return hashlib.sha256("\n".join([digest, *inputs]).encode()).hexdigest()[:16]


def _take(key: str, folder: Path, out: Path) -> None:
    """Copy the user's model, which `key` of params.yaml names.

    Raises:
        DataError: when the folder is no sequence classifier with one label.
    """
    import json

    config = folder / "config.json"
    if not config.is_file():
        raise DataError(f"{key}: {folder} holds no config.json, so it is no Hugging Face model folder")
    found = json.loads(config.read_text(encoding="utf-8"))
    architectures, n_labels = found.get("architectures") or [], len(found.get("id2label") or "01")
    if n_labels != 1 or not any("SequenceClassification" in name for name in architectures):
        raise DataError(
            f"{key}: {folder} is a {architectures or 'model of unknown kind'} with {n_labels}"
            " labels, expected a ...ForSequenceClassification with one"
        )
    shutil.copytree(folder, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(publish.MANIFEST))


def _publish(
    params: Params, role: Role, scratch: Path, digest: str, facts: dict[str, Any], job: dict[str, Any],
    started: float, startup_s: float,
) -> None:  # fmt: skip
    with Ledger(
        scratch / "ledger",
        params_digest=digest,
        world_size=job["world_size"],
        keep_newest=1,
        step_name=TRL_STEPS,
    ) as ledger:
        best = ledger.restore_best()
        accuracy = best.entry.score or 0.0
        needed = params.reward_model.min_pair_accuracy
        if accuracy < needed and not role.shuffle_labels:
            raise StageError(
                f"the {role.stage} orders {accuracy:.1%} of the held-out pairs right, less than"
                f" reward_model.min_pair_accuracy ({needed:.1%}); PPO by it would be misled. Look at the"
                " data (reports/data/docs), train longer, or lower the gate"
            )
        rows = {step: plain(metrics) for step, metrics in merged(scratch / "metrics").items()}
        validated: dict[str, float] = rows.get(best.step, {})
        n = _rows_of(job["validation_file"])
        low, high = wilson(accuracy, n)
        figures: dict[str, float] = {
            "steps": job["total_steps"],
            "best_step": best.step,
            "pair_accuracy": accuracy,
            "pair_accuracy_ci_low": low,
            "pair_accuracy_ci_high": high,
            "n_pairs": n,
            "tokens": int(max((row.get("tokens", 0.0) for row in rows.values()), default=0.0)),
            **{
                name: validated[name]
                for name in ("margin", "mean_score", "validation_loss")
                if name in validated
            },
            "wall_s": round(time.monotonic() - started, 2),
            "startup_s": round(startup_s, 2),
        }
        with publish.publishing(role.out, {**facts, "step": best.step}) as out:
            for pattern in MODEL_FILES:
                for file in best.folder.glob(pattern):
                    shutil.copy2(file, out / file.name)
            parents = {"starting weights": paths.SFT_MODEL, "data": paths.VALIDATED}
            write_model_card(out, role.stage, params, figures, parents)
        publish.write_text(paths.curve(role.stage), curve(COLUMNS, rows))
        publish.write_json(paths.metrics(role.stage), figures)
        mark_published(scratch, ledger, best.step)


def wilson(share: float, n: int) -> tuple[float, float]:
    """The 95% interval of a share of `n` cases (Wilson 1927), which has a width at 0 and 1 too."""
    z = 1.959964
    centre, scale = share + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return (centre - half) / scale, (centre + half) / scale


def _rows_of(file: str) -> int:
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(file).metadata.num_rows)
