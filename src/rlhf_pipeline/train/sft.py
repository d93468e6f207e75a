"""Supervised fine-tuning: what the sft stage trains on, and what it publishes as models/sft.

The training itself is fine_tune.py's.
"""

from __future__ import annotations

import hashlib
import shutil
import time

from .. import paths, publish
from ..checkpoints.published import forget_published, mark_published
from ..checkpoints.retention import bound_runs
from ..curves import curve
from ..metrics_log import merged
from ..model_card import write_model_card
from ..models.weights import record_dtype
from ..params import Params
from .fine_tune import COLUMNS, FineTuning, figures, fine_tune, plain


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
    workspace = paths.workspace()
    run = FineTuning(
        stage="sft",
        section="sft",
        settings=params.sft,
        model=paths.BASE_MODEL,
        train_file=workspace / paths.table(paths.VALIDATED, "sft", "train"),
        validation_file=workspace / paths.table(paths.VALIDATED, "sft", "validation"),
        scratch=workspace / paths.SCRATCH / "sft" / _state_name(digest),
    )
    forget_published(run.scratch)
    bound_runs(run.scratch.parent, run.scratch, keep_others=1)
    total_steps, startup_s = fine_tune(params, digest, run)
    with run.open_ledger(params, digest) as ledger:
        best = ledger.restore_best()
        rows = {step: plain(metrics) for step, metrics in merged(run.scratch / "metrics").items()}
        found = figures(rows, total_steps, best) | {
            "wall_s": round(time.monotonic() - started, 2),
            "startup_s": round(startup_s, 2),
        }
        with publish.publishing(paths.SFT_MODEL, {**facts, "step": best.step}) as out:
            publish.copy_model(best.folder / "huggingface", out)
            record_dtype(out)
            parents = {"starting weights": paths.BASE_MODEL, "data": paths.VALIDATED}
            write_model_card(out, "sft", params, found, parents)
        publish.write_text(paths.curve("sft"), curve(COLUMNS, rows))
        publish.write_json(paths.metrics("sft"), found)
        mark_published(run.scratch, ledger, best.step)


def _state_name(digest: str) -> str:
    inputs = [publish.sha256_of(folder / publish.MANIFEST) for folder in (paths.BASE_MODEL, paths.VALIDATED)]
    return hashlib.sha256("\n".join([digest, *inputs]).encode()).hexdigest()[:16]
