"""The arithmetic of the benchmark tables, against hand-computed numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.ablation import figures
from benchmarks.ppo import steps_in
from benchmarks.two_workers import off_band, parts


def test_the_distance_of_a_curve_is_in_units_of_the_seeds_own() -> None:
    # Centre 1, 2; the seeds lie 0.5 off it; the curve 1 and 0.
    assert off_band([2.0, 2.0], [0.5, 1.5], [1.5, 2.5]) == pytest.approx(1.0)


def test_medians_leave_out_warm_up_and_the_last_step(tmp_path: Path) -> None:
    steps = [
        {"timing_s/step": value, "timing_s/gen": value / 2} for value in (90.0, 80.0, 1.0, 2.0, 6.0, 70.0)
    ]
    log = tmp_path / "metrics.jsonl"
    log.write_text("".join(json.dumps({"data": row}) + "\n" for row in [{"val/score": 1.0}, *steps]))
    found = figures(steps_in(log))
    assert found["step_s"] == 2.0
    assert found["generation_s"] == 1.0
    assert found["step_sd_s"] == pytest.approx(2.646, abs=1e-3)  # of 1, 2, 6: variance 7


def test_parts_leave_out_steps_that_validate() -> None:
    def row(step_s: str, validation_s: str = "") -> dict[str, str]:
        shown = {"step_s": step_s, "validation_s": validation_s, "gpu_memory_gb": "", "reward": "0.5"}
        return {**shown, "tokens_per_s_per_gpu": "100"}

    curve = [row(""), row("9"), row("8"), row("1"), row("3"), row("7", "5")]
    assert parts(curve)["step_s"] == 2.0
    assert parts(curve)["gpu_memory_gb"] is None
    assert len(parts(curve)["rewards"]) == 5
