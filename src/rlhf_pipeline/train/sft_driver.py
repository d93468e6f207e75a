"""The process that runs verl's SFT trainer: `python -m rlhf_pipeline.train.sft_driver JOB`, one per rank.

verl's trainer as it is, but every save goes through the ledger with the validation loss before it
(score = -loss), and a run resumes from the ledger's newest verified step.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

from ..checkpoints.code import git_commit
from ..checkpoints.ledger import Ledger
from ..paths import workspace


def main() -> int:
    """Run the job file given as the only argument."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    from omegaconf import OmegaConf
    from verl.trainer import sft_trainer
    from verl.utils.distributed import destroy_global_process_group, initialize_global_process_group

    initialize_global_process_group()
    try:
        config = OmegaConf.load(job["config_file"])
        ledger = open_ledger(job)
        folder = shared(resume_folder(ledger) if ledger is not None else None)
        if folder is not None:
            config.trainer.resume_mode, config.trainer.resume_from_path = "resume_path", folder
        losses: dict[str, float] = {}
        sft_trainer.Tracking = recording(sft_trainer.Tracking, losses)
        trainer = sft_trainer.SFTTrainer(config=config)
        save_into(ledger, trainer.ckpt_handler, losses)
        gc.freeze()  # verl collects garbage at each epoch and save: 0.7 s a time over the imported modules
        trainer.fit()
        if ledger is not None:
            ledger.finish("all steps done")
            ledger.close()
    finally:
        destroy_global_process_group()
    return 0


def open_ledger(job: dict[str, Any]) -> Ledger | None:
    """The run's ledger on rank 0, None on the others."""
    import torch

    if torch.distributed.get_rank() != 0:
        return None
    return Ledger(
        Path(job["ledger"]),
        params_digest=job["params_digest"],
        world_size=job["world_size"],
        keep_newest=1,
        code_commit=git_commit(workspace()),
    )


def resume_folder(ledger: Ledger) -> str | None:
    restored = ledger.resume()
    return None if restored is None else str(restored.folder)


def recording(tracking: Any, losses: dict[str, float]) -> Any:
    """verl's Tracking that also remembers the newest validation loss."""

    class Recording(tracking):
        def log(self, data: dict[str, Any], step: int, **rest: Any) -> None:
            if "val/loss" in data:
                losses["newest"] = float(data["val/loss"])
            super().log(data=data, step=step, **rest)

    return Recording


def save_into(ledger: Ledger | None, handler: Any, losses: dict[str, float]) -> None:
    """Make verl's checkpoint handler write each step into the ledger's folder, then commit it."""
    import torch

    save = handler.save_checkpoint

    def save_checkpoint(step: int) -> None:
        handler.default_local_dir = shared(str(ledger.begin(step).parent) if ledger is not None else None)
        save(step=step)
        torch.distributed.barrier()
        if ledger is not None:
            ledger.commit(step, score=-losses["newest"])

    handler.save_checkpoint = save_checkpoint


def shared(value: str | None) -> str | None:
    """Rank 0's value on every rank."""
    import torch

    box = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


if __name__ == "__main__":
    sys.exit(main())
