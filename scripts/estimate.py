"""`make estimate`: what PPO with these params will take of memory, disk and time, before it is started.

    python -m scripts.estimate                    sizes from models/, time from three real steps
    python -m scripts.estimate --gpu-gib 80       memory of another machine's GPUs; no steps are run

The steps run in a workspace of their own below .scratch, with the models and data of this one, and leave
nothing behind. Stages before PPO are not estimated, they must have run.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import sys
from pathlib import Path

from rlhf_pipeline import errors, paths, process
from rlhf_pipeline.checkpoints.disk import GIB, free_bytes, run_bytes
from rlhf_pipeline.hardware import resolve_device
from rlhf_pipeline.params import Params, load
from rlhf_pipeline.params_edit import change_params
from rlhf_pipeline.ppo import extent, footprint
from rlhf_pipeline.progress import clock

INPUTS = (paths.VALIDATED, paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE)
FOLDER = paths.SCRATCH / "estimate"
STEPS = 3
"""The first step is warm-up."""


def main() -> None:
    """Print the estimate for params.yaml.

    Raises:
        DataError: PPO's inputs are not there.
        StageError: a step could not be run.
        ParamsError: the run cannot fit.
    """
    parser = argparse.ArgumentParser(prog="python -m scripts.estimate", description=__doc__)
    parser.add_argument("--gpu-gib", type=float, help="memory of each GPU; no steps are run")
    gpu_gib: float | None = parser.parse_args().gpu_gib
    params = load()
    for folder in INPUTS:
        if not folder.is_dir():
            raise errors.DataError(f"{folder} does not exist; run `dvc repro reward_model judge` first")
    sizes = extent.sizes_of(params, extent.run_paths_of(params, paths.workspace(), FOLDER))
    print(f"models     {', '.join(f'{name} {n / 1e6:,.1f} M' for name, n in sizes._asdict().items() if n)}")
    print(f"steps      {steps_in_words(params)}")
    print(f"disk       {disk_in_words(params, sizes)}")
    if gpu_gib is not None:
        found = footprint.footprint(params, sizes, int(gpu_gib * GIB))
        print(f"memory     {footprint.statement(found)}")
        if told := footprint.problems(found):
            raise errors.ParamsError("\n  ".join(["PPO does not fit", *told]))
        return
    if resolve_device(params) == "cuda":
        print(f"memory     {footprint.check(params, sizes) or 'nvidia-smi does not tell'}")
    print(f"time       {time_in_words(params, *measure(params))}")


def steps_in_words(params: Params) -> str:
    """How much there is to do."""
    ppo = params.ppo
    total, every = extent.steps_of(params, paths.workspace())
    responses = ppo.train_batch_size * ppo.rollout.n
    longest = params.data.max_prompt_tokens + params.data.max_response_tokens
    return (
        f"{total}, each of {responses} responses and at most {responses * longest:,} tokens; a validation"
        f" every {every}"
    )


def disk_in_words(params: Params, sizes: footprint.Sizes) -> str:
    """What the run's checkpoints take at most, beside what is free."""
    one = extent.checkpoint_of(params, sizes)
    most = run_bytes(one, params.ppo.checkpoints.keep_newest)
    return (
        f"{footprint.gib(one)} a checkpoint, {footprint.gib(most)} at most (ppo.checkpoints.keep_newest);"
        f" {footprint.gib(free_bytes(paths.workspace()))} are free"
    )


def measure(params: Params) -> tuple[float, float, float]:
    """Seconds of start-up, of a step and of a validation, from a few real steps with these params."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        for needed in INPUTS:
            (FOLDER / needed.parent).mkdir(parents=True, exist_ok=True)
            (FOLDER / needed).symlink_to(needed.resolve())
        settings = {"ppo.total_steps": STEPS, "ppo.validation.every": STEPS, "tracking.backends": ["jsonl"]}
        change_params(paths.PARAMS, settings, FOLDER / paths.PARAMS)
        log = paths.log("estimate")
        print(f"           running {STEPS} steps (log: {log})", flush=True)
        code = os.pathsep.join(str(Path(place).resolve()) for place in ("src", "."))
        environment = {"RLHF_WORKSPACE": str(FOLDER.resolve()), "PYTHONPATH": code}
        command = [sys.executable, "-m", "stages.ppo"]
        process.run(command, log=log.resolve(), env=environment, name="estimate", cwd=FOLDER)
        told = json.loads((FOLDER / paths.metrics("ppo")).read_text(encoding="utf-8"))
        with (FOLDER / paths.curve("ppo")).open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    steps = [float(row["step_s"]) for row in rows if row["step_s"] and int(row["step"]) > 1]
    validations = [float(row["validation_s"]) for row in rows if row["validation_s"]]
    return told["startup_s"], statistics.median(steps), statistics.median(validations or [0.0])


def time_in_words(params: Params, startup_s: float, step_s: float, validation_s: float) -> str:
    """The whole run's time, and what it is made of."""
    total, every = extent.steps_of(params, paths.workspace())
    n_validations = -(-total // every) + params.ppo.validation.before_train
    whole_s = startup_s + total * step_s + n_validations * validation_s
    return (
        f"{clock(whole_s)}: {startup_s:.0f} s of start-up, {total} steps of {step_s:.1f} s, {n_validations}"
        f" validations of {validation_s:.1f} s; steps grow with the responses"
    )


if __name__ == "__main__":
    sys.exit(errors.main(main))
