"""`make clean-checkpoints`: deletes the checkpoints in .scratch that no ledger pins, and says what stays.

Pinned are the best step, the last good one and the newest of every run, so that each run can still go on
and publish. Releases, published models and DVC's cache lie elsewhere and are not looked at.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rlhf_pipeline import errors, paths
from rlhf_pipeline.checkpoints.book import LEDGER, read_book
from rlhf_pipeline.checkpoints.disk import folder_bytes
from rlhf_pipeline.checkpoints.ledger import Ledger

GB = 1e9


def main() -> None:
    """Clean every run of every stage and print one line for each."""
    runs = sorted(file.parent for file in paths.SCRATCH.glob(f"*/*/**/{LEDGER}"))
    freed = 0
    for run in runs:
        before = folder_bytes(run)
        try:
            kept = clean(run)
        except errors.CheckpointError as error:
            print(f"{run}: left as it is: {error}")
            continue
        saved = before - folder_bytes(run)
        freed += saved
        print(
            f"{run}: keeps {', '.join(f'step {step} ({state})' for step, state in kept.items()) or 'nothing'}"
        )
    print(f"{len(runs)} runs, {freed / GB:.3f} GB freed")


def clean(run: Path) -> dict[int, str]:
    """Delete what the ledger of a run folder does not pin; returns the steps that stay, with their states.

    Raises:
        CheckpointError: the run is in use, or its ledger cannot be trusted.
    """
    book, _ = read_book(run)
    if book is None:
        return {}
    with Ledger(
        run,
        params_digest=book.params_digest,
        world_size=book.world_size,
        keep_newest=1,
        step_name=book.step_name,
    ) as ledger:
        ledger.prune()
        live = {entry.step for entry in ledger.book.live()}
        return {step: state for step, state in ledger.states().items() if step in live}


if __name__ == "__main__":
    sys.exit(errors.main(main))
