"""What a finished run leaves: the best step as models/policy, its curve, figures and events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import paths, publish
from ..checkpoints.ledger import Ledger
from ..checkpoints.published import mark_published
from ..curves import curve
from ..errors import StageError
from ..metrics_log import merged
from ..model_card import write_model_card
from ..models.weights import record_dtype
from ..params import Params
from .figures import COLUMNS, plain
from .job import Job

EVENTS_FILE = "events.jsonl"


def publish_policy(job: Job, params: Params, metrics_folder: Path, wall_s: float, startup_s: float) -> None:
    """Verify the best committed step and publish it with the run's figures.

    Raises:
        CheckpointError: when no committed step verifies.
    """
    run = Path(job.ledger).parent
    with Ledger(
        Path(job.ledger),
        params_digest=job.params_digest,
        world_size=params.hardware.n_gpus_per_node * params.hardware.nnodes,
        keep_newest=params.ppo.checkpoints.keep_newest,
    ) as ledger:
        best = ledger.restore_best()
        steps = merged(metrics_folder)
        figures = {
            **_figures(steps),
            "best_step": best.step,
            "best_score": best.entry.score,
            "rollbacks": ledger.rollbacks,
            "steps": job.total_steps,
            "finished": ledger.finished,
            "wall_s": round(wall_s, 2),
            "startup_s": round(startup_s, 2),
        }
        facts = {
            "stage": "ppo",
            "params_digest": job.params_digest,
            "seed": params.seed,
            "step": best.step,
            "score": best.entry.score,
            "validation_score": job.validation_score,
            "base_model": params.model.source,
        }
        with publish.publishing(paths.POLICY, facts) as out:
            publish.copy_model(policy_folder(best.folder), out)
            record_dtype(out)
            events = [
                {key: value for key, value in event.items() if key != "time"} for event in ledger.events()
            ]
            parents = {
                "starting weights": paths.SFT_MODEL,
                "reward model": paths.REWARD_MODEL,
                "data": paths.VALIDATED,
            }
            write_model_card(out, "ppo", params, figures, parents)
            publish.write_text(out / EVENTS_FILE, "".join(json.dumps(event) + "\n" for event in events))
        publish.write_text(
            paths.curve("ppo"), curve(COLUMNS, {step: plain(metrics) for step, metrics in steps.items()})
        )
        publish.write_json(paths.metrics("ppo"), figures)
        mark_published(run, ledger, best.step)


def policy_folder(step_folder: Path) -> Path:
    """The Hugging Face folder inside a committed step.

    Raises:
        StageError: when verl did not write one.
    """
    folder = step_folder / "actor" / "huggingface"
    if not (folder / "config.json").exists():
        raise StageError(f"{folder} holds no model: the checkpoint was saved without hf_model")
    return folder


def _figures(steps: dict[int, dict[str, Any]]) -> dict[str, float]:
    """Mean over the last quarter of the steps, and the first and last validations."""
    rows = [plain(metrics) for step, metrics in steps.items() if step > 0]
    tail = rows[-max(1, len(rows) // 4) :]
    tokens = sum(metrics.get("perf/total_num_tokens", 0) for metrics in steps.values())
    found: dict[str, float] = {"tokens": tokens} if tokens else {}
    for name in (
        "reward",
        "kl",
        "entropy",
        "explained_variance",
        "response_tokens",
        "step_s",
        "tokens_per_s_per_gpu",
    ):
        values = [row[name] for row in tail if name in row]
        if values:
            found[name] = sum(values) / len(values)
    validations = [plain(metrics)["validation_score"] for metrics in steps.values() if "val/score" in metrics]
    if validations:
        found |= {"validation_score_first": validations[0], "validation_score_last": validations[-1]}
    return {name: round(value, 6) for name, value in found.items()}
