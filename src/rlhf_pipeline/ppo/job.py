"""What the stage hands to the driver process: one JSON file with params, places and derived numbers.

Written by launch.py, read by driver.py and trainer.py (found through RLHF_PPO_JOB).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..params import Params
from ..publish import write_json

JOB_VARIABLE = "RLHF_PPO_JOB"
FORWARDED_VARIABLE = "RLHF_FORWARDED"
"""Names of the variables that workers need, separated by commas."""
EVENT_MARK = "rlhf-event: "
"""Starts a line of the driver's output that is meant for the user."""


@dataclass(frozen=True)
class Job:
    """One PPO run; every path absolute."""

    params: dict[str, Any]
    config_file: str
    ledger: str
    params_digest: str
    device: str
    total_steps: int
    validate_every_steps: int
    validation_score: str
    """gold, win_rate or reward: what the ledger records and the rollback rule watches."""
    judge: str | None
    """Folder of the held-out judge of win rates."""
    checkpoint_bytes: int
    """What one saved step is expected to take."""

    def typed_params(self) -> Params:
        return Params.model_validate(self.params)

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path | None = None) -> Job:
        """Read the job of this process: `path`, or the file that RLHF_PPO_JOB names."""
        where = path or Path(os.environ[JOB_VARIABLE])
        return cls(**json.loads(where.read_text(encoding="utf-8")))
