"""The long fault suite: real kills in real runs of SFT, reward model and PPO; prints what each one cost.

    python -m benchmarks.faults [--folder FOLDER] [--only sft] [--minutes 8]

A clone of the repository is made in FOLDER and its stages up to the reward model are run, reduced. Each
chain is one run that is killed again and again: every start goes on from what the kill before it left. At
the end it must have published what a run without kills publishes. Results are kept in
FOLDER/faults.jsonl, so the suite can be done in pieces. About half an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlhf_pipeline import paths, publish
from rlhf_pipeline.metrics_log import merged
from rlhf_pipeline.params_edit import change_params
from rlhf_pipeline.publish import write_json

from .real_kills import OUTPUTS, ROOT, Kill, environment, kill, ledger_of, newest, resumed_at, start, to_json

REDUCED: dict[str, Any] = {
    "data.synthetic.n_prompts": 900,
    "sft.max_steps": 40,
    "sft.validate_every_steps": 4,
    "reward_model.max_steps": 40,
    "reward_model.validate_every_steps": 4,
    "reward_model.min_pair_accuracy": 0.5,
    "ppo.total_steps": 20,
    "ppo.train_batch_size": 16,
    "ppo.mini_batch_size": 16,
    "ppo.micro_batch_size_per_gpu": 16,
    # One vLLM engine less to start at each of some twenty starts.
    "ppo.reward.serving": "in_process",
    "ppo.validation.every": 2,
    "ppo.validation.n_prompts": 32,
    "ppo.verl_overrides": {"trainer.rollout_data_dir": "rollouts"},
    # The chain must not be decided by noise on 32 prompts.
    "rollback.max_drop": 0.9,
    "evaluate.n_prompts": 64,
}
IN_SAVE = [
    Kill("during save: files half written", "in_files"),
    Kill("during save: files whole, no manifest", "before_manifest"),
    Kill("saved, before the rename", "before_rename"),
    Kill("after the rename, before the pointer", "before_pointer"),
    Kill("between the pointer's two copies", "between_copies"),
    Kill("after the pointer, before pruning", "after_pointer"),
]
AT_THE_END = [
    Kill("publishing: before the rename", "publish_writing"),
    Kill("publishing: after the rename", "publish_renamed"),
]
OUTSIDE = [Kill("supervisor", victim="supervisor"), Kill("stage process", victim="command")]
DVC = Kill("dvc", victim="command", command="dvc")
PLANS: dict[str, tuple[str, list[Kill]]] = {
    "sft": (
        "sft",
        [
            *IN_SAVE,
            Kill("in validation", "in_sft_validation"),
            Kill("training process", victim="rank"),
            *OUTSIDE,
            DVC,
            *AT_THE_END,
        ],
    ),
    "reward_model": (
        "reward_model",
        [
            Kill("during save: files half written", "in_reward_save"),
            *(kill for kill in IN_SAVE if kill.fault not in ("in_files", "before_rename")),
            Kill("in validation", "in_reward_validation"),
            Kill("training process", victim="rank"),
            *OUTSIDE,
            DVC,
            *AT_THE_END,
        ],
    ),
    "ppo": (
        "ppo",
        [
            *IN_SAVE,
            Kill("in validation", "in_validation"),
            Kill("training worker", victim="worker"),
            Kill("vLLM engine", victim="vllm_engine"),
            Kill("vLLM server", victim="vllm_server"),
            Kill("reward worker", victim="reward_worker"),
            Kill("agent loop worker", victim="agent_loop_worker"),
            Kill("raylet", victim="raylet"),
            Kill("driver", victim="driver"),
            *OUTSIDE,
            DVC,
            Kill("flow", victim="command", command="flow"),
            *AT_THE_END,
        ],
    ),
    "ppo-rollback": (
        "ppo",
        [
            Kill("after the pointer, before pruning", "after_pointer"),
            Kill("in rollback: chosen, not recorded", "nan@{next},rollback_chosen"),
            Kill("in rollback: recorded, nothing restored", "nan@{next},rollback_marked"),
            Kill("in rollback: before the weights are loaded", "nan@{next},rollback_restoring"),
        ],
    ),
}
"""Chain -> stage, and its kills in order."""
NOT_COMPARED = (
    "timing", "perf/", "time", "per_second", "tflops", "mfu", "rollout_corr/", "training/rollout_",
)  # fmt: skip
COMPARED = {"sft": ["whole"], "reward_model": ["whole"], "ppo": ["whole", "again"]}
"""Runs without kills that a chain is compared with; a rollback changes the course of its own."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where to work and keep results; a new one if left out")
    parser.add_argument("--only", choices=PLANS, action="append", help="chains to run; all if left out")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so many minutes")
    parser.add_argument("--table", action="store_true", help="only print the results so far")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    deadline = time.monotonic() + 60 * given.minutes
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="faults-"))).resolve()
    if not given.table:
        prepare(folder)
        for chain in given.only or PLANS:
            run_chain(folder, chain, deadline)
    print_results(folder)
    return 0


def prepare(folder: Path) -> None:
    """The clone with its stages up to the reward model, once."""
    base = folder / "base"
    if (base / paths.JUDGE).is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(base, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(base)], check=True)
    change_params(base / paths.PARAMS, REDUCED, base / paths.PARAMS)
    command = [sys.executable, "-m", "dvc", "repro", "-q", "reward_model", "judge"]
    subprocess.run(command, cwd=base, env=environment(base), check=True)


def run_chain(folder: Path, chain: str, deadline: float) -> None:
    """The kills of a chain that were not tried yet, and after the last of them the run to its end."""
    stage, plans = PLANS[chain]
    place = folder / chain
    done = [entry for entry in notes_in(folder) if entry["chain"] == chain]
    if not done:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder / "base", place, symlinks=True)
        shutil.rmtree(place / paths.SCRATCH / stage, ignore_errors=True)
        shutil.rmtree(place / OUTPUTS[stage], ignore_errors=True)
    for number, plan in enumerate(plans):
        if any(entry.get("kill") == number and entry["killed"] for entry in done):
            continue
        if time.monotonic() > deadline:
            return
        ledger = ledger_of(place, stage)
        if ledger is not None and ledger.finished is not None and not plan.fault.startswith("publish"):
            # The run came to its end before all kills were tried: another one.
            shutil.rmtree(place / paths.SCRATCH / stage)
            shutil.rmtree(place / OUTPUTS[stage], ignore_errors=True)
        expected, starts = newest(ledger_of(place, stage)), len(resumed_at(place, stage))
        left = kill(place, stage, plan)
        note(folder, {"chain": chain, "kill": number, **json.loads(to_json(left))})
        judge_start(folder, chain, place, expected, starts)
        print(f"{chain}: {plan.point}: {left}", flush=True)
    own = [entry for entry in notes_in(folder) if entry["chain"] == chain]
    what = [entry for entry in own if "kill" in entry or "end" in entry]
    if time.monotonic() < deadline and "end" not in what[-1]:
        finish(folder, chain, place)
    if time.monotonic() < deadline and chain in COMPARED:
        compare(folder, chain, place, deadline)


def judge_start(folder: Path, chain: str, place: Path, expected: int | None, starts: int) -> None:
    """Note whether the start that is over went on from the newest step committed before it."""
    stage, _ = PLANS[chain]
    if expected is None:
        note(folder, {"chain": chain, "start": "from the beginning: nothing was committed", "as_due": True})
        return
    found = resumed_at(place, stage)[starts:]
    ledger = ledger_of(place, stage)
    finished = ledger is not None and ledger.finished is not None
    note(
        folder,
        {"chain": chain, "start": found, "due": expected, "as_due": found[:1] == [expected] or finished},
    )


def finish(folder: Path, chain: str, place: Path) -> None:
    """Let the killed run end, as the same command does."""
    stage, _ = PLANS[chain]
    expected, starts = newest(ledger_of(place, stage)), len(resumed_at(place, stage))
    code = start(place, stage).wait()
    judge_start(folder, chain, place, expected, starts)
    note(folder, {"chain": chain, "end": code, "published": publish.verify(place / OUTPUTS[stage])["step"]})


def compare(folder: Path, chain: str, place: Path, deadline: float) -> None:
    """Compare the killed run with runs that were never killed, and those with one another."""
    stage, _ = PLANS[chain]
    for name in COMPARED[chain]:
        other = folder / f"{chain}-{name}"
        if (other / "ended").exists() or time.monotonic() > deadline:
            continue
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(folder / "base", other, symlinks=True)
        shutil.rmtree(other / paths.SCRATCH / stage, ignore_errors=True)
        assert start(other, stage).wait() == 0
        (other / "ended").touch()
    others = [folder / f"{chain}-{name}" for name in COMPARED[chain]]
    if not all((other / "ended").exists() for other in others):
        return
    note(folder, {"chain": chain, "compared": "killed with whole", **difference(place, others[0], stage)})
    if len(others) > 1:
        note(
            folder,
            {"chain": chain, "compared": "whole with whole", **difference(others[1], others[0], stage)},
        )


def difference(one: Path, two: Path, stage: str) -> dict[str, Any]:
    """How far apart two finished runs are: weights, curves and, for PPO, prompts and sampled responses."""
    from safetensors.torch import load_file

    ours, theirs = (load_file(place / OUTPUTS[stage] / "model.safetensors") for place in (one, two))
    far = {name: float((ours[name] - theirs[name]).abs().max()) for name in theirs}
    found: dict[str, Any] = {
        "tensors": len(far),
        "tensors_bit_equal": sum(value == 0 for value in far.values()),
        "largest_weight_difference": max(far.values()),
    }
    ours_by_step, theirs_by_step = (metrics_of(place, stage) for place in (one, two))
    found |= {
        "steps": len(theirs_by_step),
        "steps_bit_equal": sum(ours_by_step.get(step) == row for step, row in theirs_by_step.items()),
    }
    if stage == "ppo":
        found |= rollouts(one, two)
    return found


def metrics_of(place: Path, stage: str) -> dict[int, dict[str, Any]]:
    """Every metric of the newest run by step, in full precision, but for times and what vLLM measured.

    vLLM's own log-probabilities depend on which requests it served together; nothing is trained on them.
    """
    folders = (place / paths.SCRATCH / stage).glob("*/metrics")
    newest_folder = max(folders, key=lambda folder: folder.stat().st_mtime)
    return {
        step: {name: value for name, value in row.items() if not any(word in name for word in NOT_COMPARED)}
        for step, row in merged(newest_folder).items()
    }


def rollouts(one: Path, two: Path) -> dict[str, int]:
    """How many training prompts and sampled responses of two PPO runs are the same, step by step."""
    same = {"rollouts": 0, "prompts_equal": 0, "responses_equal": 0}
    for file in sorted((two / "rollouts").glob("*.jsonl")):
        ours, theirs = (
            sorted((row["input"], row["output"]) for row in map(json.loads, path.read_text().splitlines()))
            for path in (one / "rollouts" / file.name, file)
        )
        same["rollouts"] += len(theirs)
        same["prompts_equal"] += sum(a[0] == b[0] for a, b in zip(ours, theirs, strict=True))
        same["responses_equal"] += sum(a == b for a, b in zip(ours, theirs, strict=True))
    return same


def notes_in(folder: Path) -> list[dict[str, Any]]:
    """What was noted so far."""
    file = folder / "faults.jsonl"
    return (
        [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    )


def note(folder: Path, facts: dict[str, Any]) -> None:
    with (folder / "faults.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")


def print_results(folder: Path) -> None:
    """The table, and one line for each comparison; the same as JSON in benchmarks/results/faults.json."""
    notes = notes_in(folder)
    print(f"{'stage':13}{'kill point':46}{'tried':>6}{'resumed':>9}{'lost':>6}{'orphans':>9}{'half':>6}")
    total: dict[str, int] = defaultdict(int)
    for row in rows(notes):
        total = {name: total.get(name, 0) + row[name] for name in NUMBERS}
        print_row(row["stage"], row["point"], row)
    print_row("all", "", total)
    rest = [entry for entry in notes if "compared" in entry or "end" in entry]
    for entry in rest:
        print(json.dumps(entry))
    write_json(ROOT / "benchmarks" / "results" / "faults.json", {"kills": list(rows(notes)), "ends": rest})


def print_row(stage: str, point: str, row: Mapping[str, int]) -> None:
    print(f"{stage:13}{point:46}" + "".join(f"{row[name]:>{width}}" for name, width in NUMBERS.items()))


NUMBERS = {"tried": 6, "resumed": 9, "lost": 6, "orphans": 9, "half": 6}


def rows(notes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for each kill that took place, with how the start after it went."""
    for chain in PLANS:
        own = [entry for entry in notes if entry["chain"] == chain]
        # A command that ended by itself before it started the stage (DVC's cache had it) is no start.
        started = [
            entry
            for before, entry in zip([{}, *own], own, strict=False)
            if not ("start" in entry and entry["start"] == [] and before.get("killed") is False)
        ]
        yield from rows_of(started)


def rows_of(notes: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for place, entry in enumerate(notes):
        if "kill" not in entry or not entry["killed"]:
            continue
        later = [other for other in notes[place + 1 :] if "start" in other]
        # The first note after a kill is about the start that was killed, the second about the next one.
        yield {
            "stage": entry["stage"],
            "point": entry["point"],
            "tried": 1,
            "resumed": int(len(later) > 1 and later[1]["as_due"]),
            "lost": len(entry["lost"]),
            "orphans": len(entry["orphans"]),
            "half": len(entry["half_published"]),
        }


if __name__ == "__main__":
    sys.exit(main())
