"""Says in one sentence whether a policy is better than what it was compared with, and how sure that is.

Reads the flat figures only, so the report and the terminal summary say the same. Whether to release
is another question, answered against the promoted policy by the release step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Direction = Literal["better", "worse", "undecided"]
JUDGE_NAMES = {"gold": "the gold rule", "judge": "the held-out judge", "reward": "the reward model"}


class Verdict(NamedTuple):
    """The answer, its sentence, the numbers behind it, and what to keep in mind."""

    direction: Direction
    sentence: str
    numbers: str
    caveats: list[str]


def verdict(metrics: Mapping[str, Any], against: str = "SFT") -> Verdict:
    """The verdict on the figures of one comparison.

    Better or worse is said only when the 95% interval of the mean gain, by the most independent judge
    there is, lies wholly on one side of zero.
    """
    judge = metrics["win_rate_judge"]
    gain, low, high = (metrics[f"{judge}_gain{end}"] for end in ("", "_ci_low", "_ci_high"))
    direction: Direction = "better" if low > 0 else "worse" if high < 0 else "undecided"
    said = {
        "better": f"The policy is better than {against}",
        "worse": f"The policy is worse than {against}",
        "undecided": f"No clear difference between the policy and {against}",
    }[direction]
    wins = f"wins {metrics['win_rate']:.0%} of {metrics['n_prompts']} unseen prompts"
    sentence = f"{said}: it {wins} by {JUDGE_NAMES[judge]}."
    numbers = f"Mean {judge} {gain:+.3f} (95% {low:+.3f} to {high:+.3f})."
    return Verdict(direction, sentence, numbers, _caveats(metrics, judge, direction))


def _caveats(metrics: Mapping[str, Any], judge: str, direction: Direction) -> list[str]:
    found = []
    if judge == "reward":
        found.append(
            "The judge is the reward model that trained the policy; an independent judge may disagree."
        )
    elif metrics.get("reward_gain_ci_low", 0.0) > 0 and direction != "better":
        found.append(f"The reward model's score rose while {JUDGE_NAMES[judge]} saw no gain: reward hacking.")
    controlled = metrics["win_rate_length_controlled"]
    if direction == "better" and metrics["win_rate_ci_low"] > 0.5 and controlled < 0.5:
        found.append(f"At equal length the policy would win {controlled:.0%}: the gain may be one of length.")
    if metrics["distinct_2_policy"] < 0.5 * _reference(metrics, "distinct_2"):
        found.append("Diversity (distinct-2) fell to less than half.")
    if metrics["repetition_policy"] > _reference(metrics, "repetition") + 0.1:
        found.append("Responses repeat themselves more than before.")
    return found


def reference_label(metrics: Mapping[str, Any]) -> str:
    """The label of the side that the policy was compared with (`sft` in the stage)."""
    return next(
        name.removeprefix("response_tokens_")
        for name in metrics
        if name.startswith("response_tokens_")
        and not name.startswith("response_tokens_policy")
        and not name.endswith(("_ci_low", "_ci_high"))
    )


def _reference(metrics: Mapping[str, Any], name: str) -> float:
    return float(metrics[f"{name}_{reference_label(metrics)}"])
