"""The process that fits the reward model with TRL's RewardTrainer, one per rank.

`python -m rlhf_pipeline.train.reward_driver JOB`. Bradley-Terry loss on the pairs, centred on zero
(Eisenstein et al. 2023). Both responses are rendered as PPO renders them: prompt with generation
prompt, response, EOS, the score standing at the last token. Each validated step goes into the
ledger; a killed run resumes from the newest verified one.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from ..backend import loopback
from ..checkpoints.code import git_commit
from ..checkpoints.ledger import Ledger
from ..checkpoints.run_folder import TRL_STEPS
from ..paths import workspace
from ..records import is_judges
from ..rendering import prompt_ids, response_ids

SCORE = "eval_accuracy"


def main() -> int:
    """Run the job file given as the only argument."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    import torch
    from transformers import AutoTokenizer

    loopback.install()
    torch.manual_seed(job["seed"])
    tokenizer = AutoTokenizer.from_pretrained(job["model"], trust_remote_code=False)
    train = pairs(job["train_file"], tokenizer, job["seed"] if job["shuffle_labels"] else None, job["part"])
    evaluation = pairs(job["validation_file"], tokenizer)
    trainer = make_trainer(job, tokenizer, train, evaluation)
    ledger = None
    if trainer.is_world_process_zero():
        ledger = Ledger(
            Path(job["ledger"]),
            params_digest=job["params_digest"],
            world_size=job["world_size"],
            keep_newest=1,
            step_name=TRL_STEPS,
            code_commit=git_commit(workspace()),
        )
    restored = ledger.resume() if ledger is not None else None
    trainer.add_callback(callback(ledger, Path(job["metrics"]))())
    trainer.train(resume_from_checkpoint=str(restored.folder) if restored is not None else None)
    if ledger is not None:
        ledger.finish("all steps done")
        ledger.close()
    return 0


def pairs(
    file: str, tokenizer: Any, shuffle_seed: int | None = None, part: dict[str, Any] | None = None
) -> Any:
    """A datasets.Dataset of chosen_input_ids and rejected_input_ids; a seed swaps half of the labels.

    `part` takes only the pairs of the judge's share of the prompts (`judge` true), or only the others.
    """
    import random

    import pyarrow.parquet as pq
    from datasets import Dataset

    rng = random.Random(shuffle_seed)
    rows = []
    for row in pq.read_table(file).to_pylist():
        if part is not None and is_judges(row["prompt_id"], part["share"]) is not part["judge"]:
            continue
        prompt = prompt_ids(tokenizer, row["prompt"])
        chosen, rejected = (prompt + response_ids(tokenizer, row[side]) for side in ("chosen", "rejected"))
        if shuffle_seed is not None and rng.random() < 0.5:
            chosen, rejected = rejected, chosen
        rows.append({"chosen_input_ids": chosen, "rejected_input_ids": rejected})
    return Dataset.from_list(rows)


def make_trainer(job: dict[str, Any], tokenizer: Any, train: Any, evaluation: Any) -> Any:
    """TRL's RewardTrainer with this job's settings."""
    import torch
    from transformers import AutoModelForSequenceClassification
    from trl import RewardConfig, RewardTrainer

    model = AutoModelForSequenceClassification.from_pretrained(
        job["model"],
        num_labels=1,
        dtype=torch.float32,
        attn_implementation=job["attention"],
        trust_remote_code=False,
    )
    model.config.pad_token_id = tokenizer.pad_token_id
    optimiser = job["optimiser"]
    config = RewardConfig(
        output_dir=job["ledger"],
        max_steps=job["total_steps"],
        per_device_train_batch_size=job["micro_batch_size"],
        per_device_eval_batch_size=job["micro_batch_size"],
        gradient_accumulation_steps=job["gradient_accumulation_steps"],
        learning_rate=optimiser["lr"],
        warmup_steps=math.ceil(optimiser["warmup_ratio"] * job["total_steps"]),
        lr_scheduler_type=optimiser["schedule"],
        weight_decay=optimiser["weight_decay"],
        max_grad_norm=optimiser["grad_clip"],
        center_rewards_coefficient=job["centre_coef"] or None,
        max_length=None,
        seed=job["seed"],
        data_seed=job["seed"],
        use_cpu=job["device"] == "cpu",
        bf16=job["bf16"],
        gradient_checkpointing=job["gradient_checkpointing"],
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=job["validate_every_steps"],
        save_strategy="steps",
        save_steps=job["validate_every_steps"],
        save_total_limit=None,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=job["device"] == "cuda",
    )
    return RewardTrainer(
        model=model, processing_class=tokenizer, args=config, train_dataset=train, eval_dataset=evaluation
    )


def callback(ledger: Ledger | None, metrics_file: Path) -> Any:
    """A trainer callback that writes metrics as JSON lines and commits each save to the ledger."""
    from transformers import TrainerCallback

    class Record(TrainerCallback):
        def __init__(self) -> None:
            self.newest: dict[str, float] = {}

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
            if SCORE in logs:  # TRL's own figures are in the log only, not in on_evaluate's metrics
                self.newest = logs
            if ledger is not None:
                with metrics_file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"step": state.global_step, "data": logs}) + "\n")

        def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            # transformers saves only at its own interval; every validated step is to be saved.
            control.should_save = True
            if ledger is not None:
                ledger.require_room(state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if ledger is not None and ledger.book.entry(state.global_step) is None:
                ledger.adopt(state.global_step, score=self.newest.get(SCORE))

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= state.max_steps:
                control.should_evaluate = True

    return Record


if __name__ == "__main__":
    sys.exit(main())
