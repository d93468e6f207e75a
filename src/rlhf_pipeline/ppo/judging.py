"""What judges PPO's validations: a gold rule, or a judge that PPO is not trained against.

Decides before anything expensive starts; the scores themselves are validation.py's.
"""

from __future__ import annotations

from pathlib import Path

from .. import paths
from ..errors import DataError, ParamsError
from ..evaluation.gold import has_rule
from ..params import Params
from ..publish import without_files


def judge_of(workspace: Path) -> Path | None:
    """models/judge, or None where `evaluate.judge: none` left it empty.

    Raises:
        DataError: the folder does not exist.
    """
    folder = workspace / paths.JUDGE
    if not folder.is_dir():
        raise DataError(f"{folder} does not exist; run `dvc repro judge` first")
    return None if without_files(folder) else folder


def validation_score(params: Params, validation_file: Path, judge: Path | None) -> str:
    """gold where every validation prompt has a rule, else the win rate over the first policy.

    Raises:
        ParamsError: ppo.validation.score asks for gold and the prompts have no rule, or the win rate would
            be judged by the reward model that PPO trains against, which cannot see itself being misled.
    """
    import pyarrow.parquet as pq

    wanted = params.ppo.validation.score
    if wanted in ("auto", "gold"):
        if has_rule(pq.read_table(validation_file).to_pylist()):
            return "gold"
        if wanted == "gold":
            raise ParamsError(
                f"ppo.validation.score: gold, but {validation_file} has prompts that no rule can judge;"
                " use win_rate or auto"
            )
    if wanted == "reward":
        return "reward"
    if judge is None and params.ppo.reward.source == "reward_model":
        raise ParamsError(
            "evaluate.judge: none, and no rule judges every validation prompt, so the win rate would be told"
            " by the reward model that PPO trains against. Set evaluate.judge to train (a second one on pairs"
            " of its own) or path; or go without rollback: ppo.validation.score: reward and"
            " rollback.enabled: false"
        )
    return "win_rate"
