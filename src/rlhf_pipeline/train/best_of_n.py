"""Best-of-n distillation: SFT on the best of several responses to each prompt; publishes models/policy.

`ppo.best_of_n` in place of PPO. No critic, no rollouts while training: the responses come from the SFT
model once, or from logs. Where the candidates come from is candidates.py's, the training fine_tune.py's.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from .. import paths, publish, records
from ..checkpoints.published import forget_published, mark_published
from ..checkpoints.retention import bound_runs
from ..curves import curve
from ..errors import DataError
from ..metrics_log import merged
from ..model_card import write_model_card
from ..models.weights import record_dtype
from ..params import Params
from ..ppo.figures import COLUMNS as POLICY_COLUMNS
from ..progress import StageProgress
from .candidates import Chosen, Note, best_of, logged, prompts_of, sampled
from .fine_tune import COLUMNS, FineTuning, figures, fine_tune, plain

EVENTS_FILE = "events.jsonl"


def run_best_of_n(params: Params, digest: str) -> None:
    """Choose, train on what was chosen, publish the step with the lowest validation loss.

    Raises:
        DataError: when no prompt has two candidates.
        ParamsError: when a batch is larger than what was chosen.
    """
    started = time.monotonic()
    settings = params.ppo.best_of_n
    publish.verify(paths.SFT_MODEL)
    scratch = paths.workspace() / paths.SCRATCH / "ppo" / _state_name(digest)
    forget_published(scratch)
    bound_runs(scratch.parent, scratch, keep_others=1)
    files = {split: scratch / "chosen" / f"{split}.parquet" for split in ("train", "validation")}
    facts_file = scratch / "chosen.json"
    if not facts_file.exists():
        with StageProgress("ppo", total_steps=None) as progress:
            chosen = _choose(params, progress.note)
        for split, file in files.items():
            _write(chosen[split], file)
        publish.write_json(facts_file, _facts(chosen["train"]))
    run = FineTuning(
        stage="ppo",
        section="ppo.best_of_n.sft",
        settings=settings.sft,
        model=paths.SFT_MODEL,
        train_file=files["train"],
        validation_file=files["validation"],
        scratch=scratch,
    )
    total_steps, startup_s = fine_tune(params, digest, run)
    _publish(params, digest, run, total_steps, started, startup_s)


def _choose(params: Params, note: Note) -> dict[str, list[Chosen]]:
    """The best response to each prompt of the training and the validation split, sampled in one pass."""
    settings = params.ppo.best_of_n
    rows = {
        "train": prompts_of("train", settings.n_prompts),
        "validation": prompts_of("validation", params.ppo.validation.n_prompts),
    }
    every = [row for part in rows.values() for row in part]
    if settings.candidates == "logged":
        groups = [group for split, part in rows.items() for group in logged(part, split)]
    else:
        groups = sampled(params, every, note)
    note(f"scoring {sum(map(len, groups))} responses to {len(every)} prompts")
    chosen: dict[str, list[Chosen]] = {split: [] for split in rows}
    for one in best_of(params, every, groups):
        chosen[one.row["extra_info"]["split"]].append(one)
    for split, part in chosen.items():
        if not part:
            raise DataError(
                f"ppo.best_of_n.candidates: {settings.candidates}, but no {split} prompt has two responses"
                " that are finished"
            )
    return chosen


def _write(chosen: Sequence[Chosen], file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "prompt_id": one.row["extra_info"]["prompt_id"],
            "messages": [*one.row["prompt"], {"role": "assistant", "content": one.text}],
            "source": one.row["data_source"],
        }
        for one in chosen
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, records.SFT), file)


def _facts(chosen: Sequence[Chosen]) -> dict[str, float]:
    return {
        "n_prompts": len(chosen),
        "candidates": sum(one.n for one in chosen),
        "reward_of_candidates": fmean(one.mean for one in chosen),
        "reward_of_chosen": fmean(one.score for one in chosen),
    }


def _state_name(digest: str) -> str:
    folders = (paths.SFT_MODEL, paths.REWARD_MODEL, paths.VALIDATED)
    inputs = [publish.sha256_of(folder / publish.MANIFEST) for folder in folders]
    return hashlib.sha256("\n".join([digest, *inputs]).encode()).hexdigest()[:16]


def _publish(
    params: Params, digest: str, run: FineTuning, total_steps: int, started: float, startup_s: float
) -> None:
    import json

    chosen: dict[str, Any] = json.loads((run.scratch / "chosen.json").read_text(encoding="utf-8"))
    with run.open_ledger(params, digest) as ledger:
        best = ledger.restore_best()
        rows = {step: plain(metrics) for step, metrics in merged(run.scratch / "metrics").items()}
        found = {
            **chosen,
            **figures(rows, total_steps, best),
            "finished": ledger.finished,
            "wall_s": round(time.monotonic() - started, 2),
            "startup_s": round(startup_s, 2),
        }
        facts = {
            "stage": "ppo",
            "params_digest": digest,
            "seed": params.seed,
            "step": best.step,
            "base_model": params.model.source,
        }
        with publish.publishing(paths.POLICY, facts) as out:
            publish.copy_model(best.folder / "huggingface", out)
            record_dtype(out)
            parents = {
                "starting weights": paths.SFT_MODEL,
                "reward model": paths.REWARD_MODEL,
                "data": paths.VALIDATED,
            }
            write_model_card(out, "best_of_n", params, found, parents)
            publish.write_text(out / EVENTS_FILE, "")
        columns = (*POLICY_COLUMNS, *COLUMNS[1:])
        publish.write_text(paths.curve("ppo"), curve(columns, rows))
        publish.write_json(paths.metrics("ppo"), found)
        mark_published(run.scratch, ledger, best.step)
