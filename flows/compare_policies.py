"""Scores the new policy and the promoted one on the same prompts by the same judge, in a process of its own.

    python -m flows.compare_policies NEW_POLICY PROMOTED_POLICY OUT.json

Run inside the workspace whose data and judge count. Loads torch; release.py, which starts it, does not.
Responses that the evaluate stage already sampled come from its cache.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlhf_pipeline import errors, paths
from rlhf_pipeline.params import load
from rlhf_pipeline.publish import write_json


def main() -> int:
    new, promoted, out = (Path(argument) for argument in sys.argv[1:])
    from rlhf_pipeline.evaluation.run import evaluate, require_inputs

    require_inputs(new, promoted, paths.REWARD_MODEL, paths.JUDGE, paths.VALIDATED)
    found = evaluate(load(), new, promoted, label="promoted", note=lambda text: print(f"release: {text}"))
    judge = found.metrics["win_rate_judge"]
    ours, theirs = scores_by_prompt(found.samples, judge)
    write_json(out, {"judge": judge, "new": ours, "promoted": theirs, "metrics": found.metrics})
    return 0


def scores_by_prompt(
    samples: Iterable[Mapping[str, Any]], judge: str
) -> tuple[dict[str, float], dict[str, float]]:
    """Scores in [0, 1] of both policies, prompt by prompt.

    The gold rule's own score where that is the judge. Other judges' scores have no zero and no unit, so
    of them only the order counts: the share of responses that win over the other policy's, ties half.
    """
    ours: dict[str, list[float]] = defaultdict(list)
    theirs: dict[str, list[float]] = defaultdict(list)
    for row in samples:
        new, promoted = row[f"{judge}_policy"], row[f"{judge}_promoted"]
        if judge != "gold":
            new = 0.5 + 0.5 * ((new > promoted) - (new < promoted))
            promoted = 1.0 - new
        ours[row["prompt_id"]].append(new)
        theirs[row["prompt_id"]].append(promoted)
    return _means(ours), _means(theirs)


def _means(scores: Mapping[str, list[float]]) -> dict[str, float]:
    return {prompt: sum(values) / len(values) for prompt, values in scores.items()}


if __name__ == "__main__":
    sys.exit(errors.main(main))
