"""The judge that PPO is never trained against: a reward model from pairs of its own, a given one, or none.

Apart from reward_model.py, which does the work, so that what the judge reads does not rerun the reward model.
"""

from __future__ import annotations

from pathlib import Path

from .. import paths
from ..params import Params
from .reward_model import Role, run


def run_judge(params: Params, digest: str) -> None:
    """Make the judge as evaluate.judge says and publish models/judge; raises what `reward_model.run` does.

    Trained with the settings of `reward_model`, another seed and the pairs of evaluate.judge_share.
    """
    # Another seed: it starts from another random score head and reads its pairs in another order.
    seed = (params.seed + 1) % 2**31
    path = Path(params.evaluate.judge_path)
    run(
        params,
        digest,
        Role("judge", paths.JUDGE, params.evaluate.judge, "evaluate.judge_path", path, seed, False),
    )
