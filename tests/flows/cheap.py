"""What the flow tests share besides fixtures: the cheap stage, how to make it misbehave, processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlhf_pipeline import orphans
from rlhf_pipeline.params_edit import change_params

STAGE = """
import json, os, subprocess, sys, time
from pathlib import Path
from rlhf_pipeline import errors, paths, progress, publish
from rlhf_pipeline.params import load_stage
from rlhf_pipeline.params.load import read_yaml

STAGE = {stage!r}
# What the evaluate stage says of two equal policies.
COLUMNS = ("train_loss", "train_accuracy", "pair_accuracy", "validation_loss", "reward", "kl",
           "validation_score")
CURVE = ",".join(("step", *COLUMNS)) + "\\n1" + ",0.25" * 7 + "\\n2" + ",0.5" * 6 + ",\\n"
FIGURES = {{"n_prompts": 4, "win_rate_judge": "gold", "wall_s": 1.0}}
for name, value in (("win_rate", 0.5), ("gold_gain", 0.0), ("gold_sft", 0.5), ("gold_policy", 0.5),
                    ("reward_sft", 0.5), ("reward_policy", 0.5), ("reward_gain", 0.0)):
    FIGURES |= {{name: value, name + "_ci_low": value - 0.1, name + "_ci_high": value + 0.1}}
for name in ("win_rate_length_controlled", "distinct_2_policy", "distinct_2_sft", "repetition_policy",
             "repetition_sft", "response_tokens_sft", "response_tokens_policy"):
    FIGURES[name] = 0.5

def main():
    params, digest = load_stage(STAGE)
    behaviour = Path(os.environ.get("BEHAVE", "behave.json"))
    todo = json.loads(behaviour.read_text()).get(STAGE, {{}}) if behaviour.exists() else {{}}
    with progress.StageProgress(STAGE, total_steps=4) as bar:
        for step in range(1, 5):
            bar.update(step, reward=step / 4)
        if "once_killed" in todo and not Path(todo["once_killed"]).exists():
            Path(todo["once_killed"]).write_text("x")
            os.kill(os.getpid(), 9)
        if "lines" in todo:
            for number in range(todo["lines"]):
                print("line", number, flush=True)
        if "daemon_s" in todo:
            subprocess.Popen(["sleep", str(todo["daemon_s"])], start_new_session=True)
        if "sleep_s" in todo:
            bar.note("sleeping")
            time.sleep(todo["sleep_s"])
        if "error" in todo and params.ppo.kl.loss.coef == todo.get("only_coef", params.ppo.kl.loss.coef):
            raise errors.DataError(todo["error"])
        if "crash" in todo:
            raise RuntimeError(todo["crash"])
        made = read_yaml(Path("dvc.yaml"))["stages"][STAGE]
        for out in [*made["outs"], *made.get("metrics", [])]:
            out = Path(next(iter(out)) if isinstance(out, dict) else out)
            out.parent.mkdir(parents=True, exist_ok=True)
            if out.suffix == ".csv":
                out.write_text(CURVE)
            elif out.suffix == ".json":
                out.write_text(json.dumps({{"kl_loss_coef": params.ppo.kl.loss.coef, **FIGURES}}))
            elif out.suffix:
                out.write_text(digest)
            else:
                with publish.publishing(out, {{"stage": STAGE}}) as folder:
                    (folder / "made.txt").write_text(digest + str(todo.get("made", "")))

sys.exit(errors.main(main))
"""

# In place of flows/compare_policies.py, which loads models: scores from behave.json.
COMPARISON = """
import json, sys
from pathlib import Path
scores = json.loads(Path("behave.json").read_text())["compare"]
facts = {"judge": "gold", "new": scores["new"], "promoted": scores["promoted"], "metrics": {}}
print("release: comparing")
Path(sys.argv[3]).write_text(json.dumps(facts))
"""


@contextmanager
def prepared(pristine: Path, place: Path) -> Iterator[Path]:
    """A copy of the repository below `place`, made the current directory; what it left running is ended."""
    folder, home = place / "workspace", place / "home"
    shutil.copytree(pristine, folder, symlinks=True)
    home.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment(folder, home).items():
            patch.setenv(name, value)
        patch.delenv("PREFECT_API_URL", raising=False)
        yield folder
    for file in folder.rglob(".rlhf/processes/*.json"):
        orphans.kill_marked(file.stem)


def environment(folder: Path, home: Path) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RLHF_WORKSPACE": str(folder),
        "PYTHONPATH": os.pathsep.join([str(folder / "src"), str(folder)]),
        "HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }


def behave(folder: Path, **stages: dict[str, Any]) -> None:
    """Tell stages what to do besides writing their outputs."""
    (folder / "behave.json").write_text(json.dumps(stages))


def set_param(folder: Path, dotted: str, value: Any) -> None:
    """Change params.yaml as a user would."""
    file = folder / "params.yaml"
    change_params(file, {dotted: value}, file)


def python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """This Python on a module or script of the workspace, output captured, deaf to no signal."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_signals,
        **options,
    )


def hear_signals() -> None:
    """Undo what `nohup` and shells do to the jobs they put into the background."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def in_stage(workspace: Path, stage: str = "prepare_data") -> bool:
    """Whether the stage has come to its sleep."""
    file = workspace / f".rlhf/progress/{stage}.json"
    return file.exists() and json.loads(file.read_text())["note"] == "sleeping"


def children(workspace: Path) -> list[int]:
    """Living processes that runs in this workspace have started."""
    ids = [file.stem for file in (workspace / ".rlhf/processes").glob("*.json")]
    marked = [pid for identifier in ids for pid in orphans.marked(identifier)]
    in_folder = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(link).startswith(str(workspace)) and int(link.parent.name) != os.getpid():
                in_folder.append(int(link.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return sorted({*marked, *in_folder})
