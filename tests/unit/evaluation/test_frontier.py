"""Which checkpoints are efficient, by hand and over real tiny models."""

from typing import Any

import pytest

from rlhf_pipeline.evaluation import generate as cache
from rlhf_pipeline.evaluation.frontier import efficient, frontier


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([(0.1, 0.5), (0.2, 0.7), (0.3, 0.6)], [True, True, False]),
        ([(0.1, 0.5), (0.1, 0.5)], [True, True]),
        ([(0.1, 0.5), (0.1, 0.6), (0.2, 0.6)], [False, True, False]),
        ([], []),
    ],
)
def test_efficient_points(points: Any, expected: Any) -> None:
    assert efficient(points) == expected


def test_checkpoints_share_prompts_and_the_reference_is_sampled_once(
    tiny: Any, data: Any, params: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(cache, "CACHE", tmp_path / "cache")
    found = frontier(
        params,
        {"start": tiny.sft, "end": tiny.policy},
        tiny.sft,
        reward_model=tiny.reward_model,
        judge=None,
        data=data,
    )
    assert [point.name for point in found] == ["start", "end"]
    assert found[0].metrics["kl_per_token"] == 0.0
    assert found[1].metrics["kl_per_token"] > 0
    assert found[0].efficient
    assert found[0].metrics["reward_sft"] == found[1].metrics["reward_sft"]
    assert "pair_accuracy" not in found[0].metrics
    assert len(list((tmp_path / "cache").iterdir())) == 2
