"""Stage evaluate: the policy against SFT on the test prompts; also a command for any two policies.

`python -m stages.evaluate` writes reports/metrics/evaluate.json and reports/evaluation/. With
`--policy` or `--against` it prints the comparison of those folders instead, and writes JSON only
where `--out` says; DVC's outputs stay as they are.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from rlhf_pipeline import errors, paths, publish
from rlhf_pipeline.evaluation.run import Evaluation, evaluate, require_inputs
from rlhf_pipeline.evaluation.table import comparison_table
from rlhf_pipeline.evaluation.verdict import verdict
from rlhf_pipeline.params import load, load_stage
from rlhf_pipeline.progress import StageProgress
from rlhf_pipeline.tracking import Tracker


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stages.evaluate", description=__doc__)
    parser.add_argument("--policy", type=Path, help="model folder to judge (default models/policy)")
    parser.add_argument("--against", type=Path, help="model folder to compare it with (default models/sft)")
    parser.add_argument("--out", type=Path, help="JSON file for the figures, outside reports/")
    chosen = parser.parse_args(arguments)
    # Read by OpenMP when torch loads: waiting threads sleep instead of taking the core another could use.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if chosen.policy or chosen.against or chosen.out:
        return compare(chosen.policy or paths.POLICY, chosen.against or paths.SFT_MODEL, chosen.out)
    return stage()


def stage() -> int:
    """What DVC runs."""
    params, digest = load_stage("evaluate")
    require_inputs(paths.POLICY, paths.SFT_MODEL, paths.REWARD_MODEL, paths.JUDGE, paths.VALIDATED)
    with StageProgress("evaluate", total_steps=None) as progress:
        progress.note("starting")
        importlib.import_module("rlhf_pipeline.evaluation.generate_torch")
        startup_s = _seconds_since_start()
        with Tracker(params, "evaluate") as tracker:
            found = evaluate(params, note=progress.note)
            tracker.summary(
                {name: value for name, value in found.metrics.items() if not isinstance(value, str)}
            )
    facts = {"stage": "evaluate", "params": digest, "seed": params.seed}
    with publish.publishing(paths.EVALUATION, facts) as out:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found.samples)
        publish.write_text(out / "samples.jsonl", lines)
        publish.write_json(out / "reward_model.json", found.details)
    times = {"wall_s": _seconds_since_start(), "startup_s": startup_s}
    publish.write_json(paths.metrics("evaluate"), {**found.metrics, **times})
    print(*verdict(found.metrics)[1:3])
    return 0


def compare(policy: Path, against: Path, out: Path | None) -> int:
    """Any policy against any other, outside DVC."""
    if out is not None and paths.REPORTS.resolve() in out.resolve().parents:
        raise errors.ParamsError(
            f"--out {out} lies in {paths.REPORTS}/, which belongs to DVC's stages; name another place"
        )
    require_inputs(policy, against, paths.REWARD_MODEL, paths.JUDGE, paths.VALIDATED)
    found: Evaluation = evaluate(load(), policy, against, label="against", note=print)
    if out is not None:
        publish.write_json(out, found.metrics)
    print(comparison_table({"against": against.name, "policy": policy.name}, found.metrics))
    print(*verdict(found.metrics, str(against))[1:3])
    return 0


def _seconds_since_start() -> float:
    return round(time.time() - psutil.Process().create_time(), 2)


if __name__ == "__main__":
    sys.exit(errors.main(main))
