"""One GPU against two, only the worker count changed: `python -m benchmarks.two_workers --workspace FOLDER`.

FOLDER is a workspace in which `dvc repro validate_data` has run. In clones of their own: one worker with
two seeds (the band that a learning curve may lie in), two workers data parallel, two with tensor parallel
rollouts, two with Ulysses sequence parallelism; each runs the stages sft, reward_model and ppo. Writes
benchmarks/results/two_workers.json after every run and prints the table: each stage's wall time, the parts
of a PPO step, memory, and how far the curve lies from the one-worker seeds. On CPUs the workers are
processes over gloo and only the first three runs make sense: `--only`.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rlhf_pipeline import paths, process
from rlhf_pipeline.errors import StageError
from rlhf_pipeline.params_edit import change_params

from .ppo import ROOT, WARM_UP_STEPS

RESULTS = ROOT / "benchmarks/results/two_workers.json"
STAGES = ("sft", "reward_model", "judge", "ppo")
RUNS: dict[str, dict[str, Any]] = {
    "one": {},
    "one, other seed": {"seed": 8},
    "two": {"hardware.n_gpus_per_node": 2},
    "two, tensor parallel": {"hardware.n_gpus_per_node": 2, "hardware.tensor_parallel_size": 2},
    "two, Ulysses": {"hardware.n_gpus_per_node": 2, "hardware.ulysses_size": 2},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for name in arguments.only:
        with tempfile.TemporaryDirectory(prefix="rlhf-bench-") as place:
            rows[name] = measured(arguments.workspace.resolve(), Path(place).resolve(), RUNS[name])
        arguments.out.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    print(table(rows))
    return 0


def measured(workspace: Path, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Run the training stages in a clone; their wall times, PPO's step parts and its reward curve."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    for needed in (paths.VALIDATED, paths.BASE_MODEL):
        shutil.copytree(workspace / needed, folder / needed, dirs_exist_ok=True)
    change_params(workspace / paths.PARAMS, settings, folder / paths.PARAMS)
    home, found = Path.cwd(), dict[str, Any]()
    os.chdir(folder)
    os.environ |= {"RLHF_WORKSPACE": str(folder), "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}"}
    try:
        for stage in STAGES:
            began = time.monotonic()
            process.run([sys.executable, "-m", f"stages.{stage}"], log=folder / "logs/run.log", name=stage)
            found[f"{stage}_wall_s"] = round(time.monotonic() - began, 1)
            told = json.loads(paths.metrics(stage).read_text(encoding="utf-8"))
            found[f"{stage}_startup_s"] = round(told.get("startup_s", 0.0), 1)
    except StageError as problem:
        return {**found, "problem": str(problem).splitlines()[-1]}
    finally:
        os.chdir(home)
    with (folder / paths.curve("ppo")).open(encoding="utf-8") as file:
        return found | parts(list(csv.DictReader(file)))


def parts(curve: list[dict[str, str]]) -> dict[str, Any]:
    """Medians of a step's parts after warm-up, the memory's peak, the rewards of all steps."""
    steps = [row for row in curve if row["step_s"]]
    names = [name for name in steps[0] if name.endswith("_s") and name != "validation_s"]
    timed = [row for row in steps[WARM_UP_STEPS:] if not row["validation_s"]] or steps[-1:]
    found: dict[str, Any] = {
        name: round(statistics.median(float(row[name]) for row in timed), 3)
        for name in [*names, "tokens_per_s_per_gpu"]
        if all(row[name] for row in timed)
    }
    memory = [float(row["gpu_memory_gb"]) for row in steps if row["gpu_memory_gb"]]
    return found | {
        "gpu_memory_gb": max(memory, default=None),
        "rewards": [round(float(row["reward"]), 4) for row in steps],
    }


def off_band(rewards: list[float], first: list[float], second: list[float]) -> float:
    """Mean distance of a reward curve from the mean of two seeds, in units of their own distance to it."""
    centre = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    own = statistics.mean(abs(a - b) / 2 for a, b in zip(first, second, strict=True))
    return statistics.mean(abs(r - c) for r, c in zip(rewards, centre, strict=True)) / own


def table(rows: dict[str, dict[str, Any]]) -> str:
    """A Markdown table; times with their speed-up over the first run in brackets."""
    names = [name for name in next(iter(rows.values())) if name not in ("rewards", "problem")]
    lines = [("", *rows), ("---",) * (1 + len(rows))]
    base = next(iter(rows.values()))
    for name in names:
        cells = []
        for values in rows.values():
            value = values.get(name)
            ratio = f" ({base[name] / value:.2f}x)" if value and name.endswith("_s") else ""
            cells.append("" if value is None else f"{value:g}{ratio}")
        lines.append((name, *cells))
    seeds = [rows.get(name, {}).get("rewards", []) for name in ("one", "one, other seed")]
    if all(seeds):
        shown = [
            f"{off_band(row['rewards'], seeds[0], seeds[1]):.2f}" if "rewards" in row else ""
            for row in rows.values()
        ]
        lines.append(("reward curve, distance / seeds' distance", *shown))
    lines += [("problem", *(row.get("problem", "") for row in rows.values()))]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
