"""A tracking backend that fails in the middle of a run: the run and the other backends go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TRAIN = f"""
import resource, sys, time
from pathlib import Path
from rlhf_pipeline.params import load
from rlhf_pipeline.tracking import Tracker

params = load({str(ROOT / "params.yaml")!r}, {{"tracking.backends": ["jsonl", "tensorboard"]}})
with Tracker(params, "ppo") as tracker:
    for step in range(1, 41):
        tracker.log(step, {{"reward": step / 10}})
        if step == 20:
            lines = []
            while len(lines) < 21:  # the start and 20 steps
                time.sleep(0.05)
                lines = [line for file in Path("logs").rglob("ppo.jsonl") for line in file.open()]
            size = sum(file.stat().st_size for file in Path("logs").rglob("ppo.jsonl"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
print("trained 40 steps")
"""


def test_a_disk_that_fills_under_one_backend_stops_neither_training_nor_the_other(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRAIN], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "trained 40 steps\n"
    assert done.stderr.count("tracking: jsonl is off, training goes on: OSError: [Errno 27]") == 1
    assert "tensorboard is off" not in done.stderr
    (written,) = (tmp_path / "logs/tracking").rglob("ppo.jsonl")
    steps = [json.loads(line).get("step") for line in written.read_text().splitlines() if line.endswith("}")]
    assert steps[1:21] == list(range(1, 21))
    assert len(steps) == 21
    (events,) = (tmp_path / "logs/tracking").rglob("events.out.tfevents.*")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    seen = {event.step for event in EventFileLoader(str(events)).Load() if event.HasField("summary")}
    assert set(range(1, 41)) <= seen
