"""The whole of params.yaml, and which parts of it each stage reads.

`STAGE_SECTIONS` is the single list behind dvc.yaml's `params:` (a contract test compares them) and
behind the digest that names a stage's resumable state.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Section
from .common import Data, Hardware, Model, Tracking
from .ppo import PPO
from .training import SFT, Evaluate, Guards, RewardModel, Rollback, ValidateData


class Params(Section):
    version: Literal[1]
    """Format of this file."""
    seed: int = Field(ge=0, lt=2**31)
    """Root of every random number in the pipeline."""
    hardware: Hardware
    model: Model
    data: Data
    validate_data: ValidateData
    sft: SFT
    reward_model: RewardModel
    ppo: PPO
    rollback: Rollback
    guards: Guards
    evaluate: Evaluate
    tracking: Tracking


_TRAINING = ["seed", "hardware", "data.max_prompt_tokens", "data.max_response_tokens", "tracking"]
_PARTS = ["evaluate.judge", "evaluate.judge_share"]
STAGE_SECTIONS: dict[str, list[str]] = {
    "base_model": ["seed", "model"],
    "prepare_data": ["seed", "data"],
    "validate_data": ["data.max_prompt_tokens", "data.max_response_tokens", "validate_data"],
    "sft": [*_TRAINING, "sft"],
    "reward_model": [*_TRAINING, "reward_model", *_PARTS],
    "judge": [*_TRAINING, "reward_model", *_PARTS, "evaluate.judge_path"],
    "ppo": [*_TRAINING, "model.source", "model.trust_remote_code", "ppo", "rollback", "guards"],
    "evaluate": [*_TRAINING, "evaluate"],
    "report": ["seed"],
}
