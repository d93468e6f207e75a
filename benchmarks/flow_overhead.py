"""What the Prefect flow and DVC cost around the stages: `python -m benchmarks.flow_overhead`.

Runs `python -m flows.train` once in a clean clone and watches from outside when each stage's process
lives. Overhead is the run's wall time less the time in which some stage worked: loading, Prefect's
server, DVC's hashing and caching, the release, the end. Writes benchmarks/results/flow_overhead.json.
The limit is 3% of the wall time or 15 s, whichever is larger. What the flow slows down inside a stage
by working beside it is not in the figure.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from rlhf_pipeline.params import STAGE_SECTIONS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/flow_overhead.json"
LIMIT_S, LIMIT_SHARE = 15.0, 0.03
SAMPLE_S = 0.05


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="rlhf-overhead-") as place:
        clone = Path(place) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        first = measure(clone)
        again = measure(clone)
    allowed = max(LIMIT_S, LIMIT_SHARE * first["wall_s"])
    result = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[1]:.1f}",
        "run": first,
        "run_with_nothing_to_do": again,
        "allowed_overhead_s": round(allowed, 1),
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    return int(first["overhead_s"] > allowed)


def measure(folder: Path) -> dict[str, float]:
    """Run the flow in a workspace; wall time, time of each stage's process, and the rest."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{folder}"}
    began = time.time()
    run = psutil.Popen([sys.executable, "-m", "flows.train"], cwd=folder, env=environment)
    lived: dict[str, list[float]] = {}
    while run.poll() is None:
        now = time.time()
        for name, started in working(run):
            lived.setdefault(name, [started, now])[1] = now
        time.sleep(SAMPLE_S)
    if run.returncode != 0:
        raise SystemExit(f"the run failed with exit code {run.returncode}")
    wall_s = time.time() - began
    stages = {name: round(end - start, 2) for name, (start, end) in lived.items()}
    return {"wall_s": round(wall_s, 2), "overhead_s": round(wall_s - sum(stages.values()), 2), **stages}


def working(run: psutil.Process) -> list[tuple[str, float]]:
    """Name and start of each stage process below the run."""
    found = []
    for process in run.children(recursive=True):
        try:
            command = process.cmdline()
            if "-m" in command and command[-1].startswith("stages."):
                name = command[-1].removeprefix("stages.")
                if name in STAGE_SECTIONS:
                    found.append((name, process.create_time()))
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


if __name__ == "__main__":
    sys.exit(main())
