"""Where everything lies, relative to the workspace (the folder that holds params.yaml and dvc.yaml).

Pure names: nothing here creates or reads a file. The workspace is `RLHF_WORKSPACE`, or the
current directory, so that `dvc exp run --temp` and tests work in a folder of their own.
"""

from __future__ import annotations

import os
from pathlib import Path


def workspace() -> Path:
    """The absolute workspace folder."""
    return Path(os.environ.get("RLHF_WORKSPACE") or os.getcwd()).resolve()


PARAMS = Path("params.yaml")
RAW = Path("data/raw")
PREPARED = Path("data/prepared")
VALIDATED = Path("data/validated")
BASE_MODEL = Path("models/base")
SFT_MODEL = Path("models/sft")
REWARD_MODEL = Path("models/reward_model")
JUDGE = Path("models/judge")
POLICY = Path("models/policy")
REPORTS = Path("reports")
DATA_REPORT = Path("reports/data")
METRICS = Path("reports/metrics")
CURVES = Path("reports/curves")
EVALUATION = Path("reports/evaluation")
REPORT_HTML = Path("reports/report.html")
RELEASE_JSON = Path("reports/release.json")
LOGS = Path("logs")
PROFILE = Path("logs/profile")
SCRATCH = Path(".scratch")
RELEASES = Path(".rlhf/releases")
PROMOTED = Path("models/promoted")
PROCESSES = Path(".rlhf/processes")
TRACKING = Path("logs/tracking")

TABLES = ("preferences", "sft", "prompts")
SPLITS = ("train", "validation", "test")


def table(root: Path, name: str, split: str) -> Path:
    """`root/<name>/<split>.parquet`, the place of one table of one split."""
    return root / name / f"{split}.parquet"


def metrics(stage: str) -> Path:
    """`reports/metrics/<stage>.json`: the flat figures of one stage."""
    return METRICS / f"{stage}.json"


def curve(stage: str) -> Path:
    """`reports/curves/<stage>.csv`: one row per training step or validation."""
    return CURVES / f"{stage}.csv"


def log(stage: str) -> Path:
    """`logs/<stage>.log`: everything the stage's child processes printed."""
    return LOGS / f"{stage}.log"
