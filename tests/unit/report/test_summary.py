"""The ten lines at the end of a run."""

import subprocess
import sys
from typing import Any

import pytest

from rlhf_pipeline.errors import DataError
from rlhf_pipeline.report.facts import bytes_text, duration
from rlhf_pipeline.report.summary import summary

from .conftest import EVALUATE


def test_summary_is_at_most_ten_lines_verdict_first(workspace: Any) -> None:
    lines = summary(wall_s=130.0).splitlines()
    assert len(lines) <= 10
    assert lines[0].startswith("The policy is better than SFT")
    text = "\n".join(lines)
    assert "0.450 [0.420, 0.480] -> 0.700 [0.670, 0.730]" in text
    assert "0.0700 +- 0.0020 nats per token" in text
    assert "best at step 3 (validation 0.7), 1 rollback" in text
    assert "2 min 10 s (PPO 1 min 40 s, Evaluation 20 s)" in text
    assert "reports/report.html" in text


def test_caveats_fit_in_what_is_left() -> None:
    hacked = {**EVALUATE, "gold_gain_ci_low": -0.1, "gold_gain": 0.0, "distinct_2_policy": 0.05}
    lines = summary({"evaluate": hacked}).splitlines()
    assert len(lines) <= 10
    assert any("reward hacking" in line for line in lines)
    assert lines[0].startswith("No clear difference")


def test_missing_evaluation_is_the_users_error() -> None:
    with pytest.raises(DataError, match="dvc repro evaluate"):
        summary({})


@pytest.mark.parametrize(("seconds", "text"), [(7.6, "8 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")])
def test_durations(seconds: Any, text: Any) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(12, "12 B"), (1500, "1.5 kB"), (269e6, "269 MB"), (2e12, "2 TB")]
)
def test_sizes(count: Any, text: Any) -> None:
    assert bytes_text(count) == text


def test_the_report_never_loads_torch_or_transformers() -> None:
    code = (
        "import sys, stages.report, rlhf_pipeline.report.summary;"
        "print([name for name in ('torch', 'transformers', 'verl', 'vllm', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
