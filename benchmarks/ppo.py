"""Our PPO stage against plain `verl.trainer.main_ppo`, same settings, one run: `python -m benchmarks.ppo`.

Needs a workspace in which `dvc repro reward_model judge` has run (`--workspace`, default this one). Three
variants after one another, each a job of its own in one copy of that workspace: `python -m stages.ppo`;
verl's own trainer as it ships; verl's own trainer with its 2 s poll lowered (fast_poll.py). The plain
ones read the configuration that the stage composed, with verl's trainer, agent loop and saving in the
place of ours; the reward manager stays, because verl has none for a served reward model's raw score.
All validate and save once, at the end. Writes benchmarks/results/ppo.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rlhf_pipeline import paths, process
from rlhf_pipeline.backend.env import worker_env
from rlhf_pipeline.hardware import resolve_device
from rlhf_pipeline.params import load
from rlhf_pipeline.params_edit import change_params

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/ppo.json"
INPUTS = (paths.VALIDATED, paths.BASE_MODEL, paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE)
WARM_UP_STEPS = 2
TIMED = slice(WARM_UP_STEPS, -1)
"""After warm-up and before the last step, which validates and saves."""
PARTS = {
    "timing_s/gen": "generation_s",
    "timing_s/reward": "reward_s",
    "timing_s/old_log_prob": "old_logprobs_s",
    "timing_s/ref": "ref_logprobs_s",
    "timing_s/values": "values_s",
    "timing_s/update_critic": "critic_update_s",
    "timing_s/update_actor": "actor_update_s",
    "timing_s/update_weights": "weight_sync_s",
}
VARIANTS = ("ours", "verl, 2 s poll", "verl, 0.02 s poll")


def main() -> int:
    """Measure every variant and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--workspace", type=Path, default=ROOT)
    parser.add_argument("--steps", type=int, default=12, help="PPO steps of each variant")
    parser.add_argument("--only", nargs="*", choices=VARIANTS, default=VARIANTS, help="'ours' always runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlhf-bench-") as place:
        folder = Path(place).resolve()
        prepare(arguments.workspace, folder, arguments.steps)
        os.chdir(folder)
        os.environ |= {"RLHF_WORKSPACE": str(folder), "PYTHONPATH": f"{folder / 'src'}{os.pathsep}{ROOT}"}
        rows = {"ours": ours(folder)}
        for variant, name, modules in zip(
            VARIANTS[1:], ("poll", "fast"), ("", "benchmarks.fast_poll"), strict=True
        ):
            if variant in arguments.only:
                rows[variant] = plain(folder, name, modules)
        device = resolve_device(load())
    result = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {device}",
        "steps": arguments.steps,
        "runs": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(table(rows))
    return 0


def prepare(workspace: Path, folder: Path, steps: int) -> None:
    """A clone with the workspace's data and models, and params that validate and save at the end only."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    for needed in INPUTS:
        shutil.copytree(workspace / needed, folder / needed, dirs_exist_ok=True)
    settings = {
        "ppo.total_steps": steps,
        "ppo.validation.every": steps,
        "ppo.validation.before_train": False,
    }
    change_params(workspace / paths.PARAMS, settings, folder / paths.PARAMS)


def ours(folder: Path) -> dict[str, float]:
    """The stage as its users run it, from the command to the published policy."""
    began = time.monotonic()
    process.run([sys.executable, "-m", "stages.ppo"], log=folder / "logs/ours.log", name="ours")
    wall_s = time.monotonic() - began
    (attempt,) = folder.glob(".scratch/ppo/*/metrics/attempt-*.jsonl")
    return figures(attempt, wall_s)


def plain(folder: Path, name: str, modules: str) -> dict[str, float]:
    """`python -m verl.trainer.main_ppo` with the composed configuration, from the command to its end."""
    (config_file,) = folder.glob(".scratch/ppo/*/verl.yaml")
    config: Any = OmegaConf.load(config_file)
    keys = {
        "trainer.v1.trainer_mode": "sync",
        "trainer.save_freq": config.trainer.total_training_steps,
        "trainer.default_local_dir": str(folder / name / "checkpoints"),
        "trainer.validation_data_dir": str(folder / name / "validation"),
        "actor_rollout_ref.rollout.agent.default_agent_loop": "single_turn_agent",
        "actor_rollout_ref.rollout.agent.agent_loop_config_path": None,
    }
    for key, value in keys.items():
        OmegaConf.update(config, key, value)
    (folder / name).mkdir()
    OmegaConf.save(config, folder / name / "plain.yaml")
    metrics = folder / name / "metrics.jsonl"
    params = load()
    with tempfile.TemporaryDirectory(prefix="rlhf-") as temp:
        environment = {
            **worker_env(
                resolve_device(params),
                temp,
                attention=params.hardware.attention,
                kv_cache_gib=params.ppo.rollout.kv_cache_gib,
            ),
            "VERL_USE_EXTERNAL_MODULES": modules,
            "VERL_FILE_LOGGER_PATH": str(metrics),
            "RLHF_REWARD": params.ppo.reward.serving,
            "RLHF_REWARD_MODEL": str(folder / paths.REWARD_MODEL),
        }
        command = [sys.executable, "-m", "verl.trainer.main_ppo"]
        command += ["--config-dir", str(folder / name), "--config-name", "plain"]
        began = time.monotonic()
        process.run(command, log=folder / f"logs/{name}.log", env=environment, name=name)
        return figures(metrics, time.monotonic() - began)


def figures(metrics: Path, wall_s: float) -> dict[str, float]:
    """Wall time, and the steps' own time after warm-up, without the last, which validates and saves."""
    steps = steps_in(metrics)
    all_s = sum(row["timing_s/step"] for row in steps)
    timed = [row["timing_s/step"] for row in steps[TIMED]]
    return {
        "wall_s": round(wall_s, 1),
        "steps_s": round(all_s, 1),
        "outside_steps_s": round(wall_s - all_s, 1),
        "step_median_s": round(statistics.median(timed), 3),
        "step_min_s": round(min(timed), 3),
        "step_max_s": round(max(timed), 3),
    } | medians(steps[TIMED], PARTS, digits=3)


def steps_in(metrics: Path) -> list[dict[str, float]]:
    """What verl's file logger wrote of each training step."""
    rows = [json.loads(line)["data"] for line in metrics.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if "timing_s/step" in row]


def medians(steps: list[dict[str, float]], names: Mapping[str, str], digits: int) -> dict[str, float]:
    """Median over the steps of every metric that all of them have, under its short name."""
    return {
        short: round(statistics.median(row[name] for row in steps), digits)
        for name, short in names.items()
        if all(name in row for row in steps)
    }


def table(rows: dict[str, dict[str, float]]) -> str:
    """A Markdown table with each figure as a ratio to ours in brackets."""
    names = list(rows["ours"])
    lines = [("", *names), ("---",) * (1 + len(names))]
    for variant, values in rows.items():
        cells = [
            f"{values[name]:g} ({values[name] / rows['ours'][name]:.2f})" for name in names if name in values
        ]
        lines.append((variant, *cells))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
