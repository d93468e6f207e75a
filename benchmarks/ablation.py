"""PPO step times with one switch changed at a time: `python -m benchmarks.ablation --workspace FOLDER`.

Starts from the workspace's params (benchmarks/shapes.py makes one) and changes one thing for each row,
in one run after another on the same machine; `--only NAME` picks rows, `tuned` is always measured first.
Rows that fail (out of memory, a switch that this device does not have) say so and the rest go on.
Writes benchmarks/results/ablation.json after every row.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rlhf_pipeline import paths, process
from rlhf_pipeline.errors import StageError
from rlhf_pipeline.params_edit import change_params

from .ppo import PARTS, ROOT, TIMED, medians, prepare, steps_in

RESULTS = ROOT / "benchmarks/results/ablation.json"
VERL = "ppo.verl_overrides"
SWITCHES: dict[str, dict[str, Any]] = {
    "tuned": {},
    "attention sdpa": {"hardware.attention": "sdpa"},
    "no remove_padding": {"ppo.remove_padding": False, "hardware.attention": "sdpa"},
    "no dynamic batch": {"ppo.dynamic_batch.enabled": False},
    "fsdp": {"hardware.strategy": "fsdp"},
    "no CUDA graphs": {"ppo.rollout.enforce_eager": True},
    "gradient checkpointing": {"ppo.gradient_checkpointing": True},
    "no prefix caching": {VERL: {"actor_rollout_ref.rollout.enable_prefix_caching": False}},
    "weight bucket 512 MB": {
        VERL: {"actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes": 512}
    },
    "offload": {"hardware.offload_policy": True},
}
OTHERS = {
    "perf/throughput": "tokens_per_s_per_gpu",
    "perf/mfu/actor": "mfu_actor",
    "perf/max_memory_allocated_gb": "memory_allocated_gb",
    "actor/perf/max_memory_allocated_gb": "memory_allocated_gb",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", nargs="*", choices=SWITCHES, default=list(SWITCHES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(["tuned", *arguments.only]):
        with tempfile.TemporaryDirectory(prefix="rlhf-bench-") as place:
            rows[name] = measured(
                arguments.workspace.resolve(), Path(place).resolve(), arguments.steps, SWITCHES[name]
            )
        print(json.dumps({name: rows[name]}), flush=True)
        arguments.out.write_text(json.dumps({"steps": arguments.steps, "rows": rows}, indent=2) + "\n")
    print(table(rows))
    return 0


def measured(workspace: Path, folder: Path, steps: int, settings: dict[str, Any]) -> dict[str, Any]:
    """The figures of one run, or its problem."""
    prepare(workspace, folder, steps)
    change_params(folder / paths.PARAMS, settings, folder / paths.PARAMS)
    home = Path.cwd()
    os.chdir(folder)
    os.environ |= {"RLHF_WORKSPACE": str(folder), "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}"}
    try:
        process.run([sys.executable, "-m", "stages.ppo"], log=folder / "logs/run.log", name="run")
    except StageError as problem:
        return {"problem": str(problem).splitlines()[-1]}
    finally:
        os.chdir(home)
    (attempt,) = folder.glob(".scratch/ppo/*/metrics/attempt-*.jsonl")
    return figures(steps_in(attempt))


def figures(steps: list[dict[str, float]]) -> dict[str, float]:
    """Medians over the timed steps, and the step's spread."""
    found = medians(steps[TIMED], PARTS | OTHERS, digits=4)
    seconds = [row["timing_s/step"] for row in steps[TIMED]]
    deviation = statistics.stdev(seconds) if len(seconds) > 1 else 0.0
    return {"step_s": round(statistics.median(seconds), 3), "step_sd_s": round(deviation, 3), **found}


def table(rows: dict[str, dict[str, Any]]) -> str:
    """A Markdown table; beside each step time its ratio to the first row's."""
    base = rows["tuned"]
    names = [name for name in base if name != "problem"]
    lines = [("", *names), ("---",) * (1 + len(names))]
    for variant, values in rows.items():
        if "problem" in values:
            lines.append((variant, values["problem"], *[""] * (len(names) - 1)))
        else:
            shown = [f"{values[name]:g}" if name in values else "" for name in names]
            shown[0] += f" ({values['step_s'] / base['step_s']:.2f})"
            lines.append((variant, *shown))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
