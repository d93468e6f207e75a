"""What a finished run leaves on its page in Prefect: a summary, the figures, a curve, where the report is.

Each artifact has one key, so Prefect shows its history over runs. Reads reports/, writes nothing.
"""

from __future__ import annotations

import base64
import csv
import io
import json
from pathlib import Path
from typing import Any

from prefect.artifacts import create_image_artifact, create_markdown_artifact, create_table_artifact

from rlhf_pipeline import errors, paths

from .server import REPORTS_FILE
from .training_run import STAGES
from .watch import Api

CURVE_COLUMNS = ("reward", "kl", "validation_score")


def show_results(folder: Path, api: Api, verdict: str) -> None:
    """Attach the run's results to the current flow run."""
    rows = metric_rows(folder)
    if rows:
        api.call(lambda: create_table_artifact(rows, key="metrics", description="Figures of every stage"))
    text = summary_markdown(folder, verdict)
    api.call(lambda: create_markdown_artifact(text, key="summary", description="What this run did"))
    image = curve_image(folder / paths.curve("ppo"))
    if image is not None:
        picture = image
        api.call(lambda: create_image_artifact(picture, key="ppo-curve", description="PPO over its steps"))


def metric_rows(folder: Path) -> list[dict[str, Any]]:
    """One row for each figure: stage, metric, value."""
    rows = []
    for stage in ("data", *STAGES):
        file = folder / paths.metrics(stage)
        if file.is_file():
            figures = json.loads(file.read_text(encoding="utf-8"))
            rows += [
                {"stage": stage, "metric": name, "value": value}
                for name, value in figures.items()
                if isinstance(value, int | float | str)
            ]
    return rows


def summary_markdown(folder: Path, verdict: str) -> str:
    """The run's outcome, its summary and where its files are."""
    report = folder / paths.REPORT_HTML
    lines = [f"**{verdict}**", ""]
    text = terminal_summary(folder)
    if text:
        lines += ["```", text, "```", ""]
    if report.is_file():
        url = report_url(folder)
        lines.append(f"Report: [{report}]({url})" if url else f"Report: `{report}`")
    lines.append(f"\nLogs: `{folder / paths.LOGS}`")
    return "\n".join(lines)


def terminal_summary(folder: Path, wall_s: float | None = None) -> str:
    """The ten lines that end a run on the terminal; empty when there was no evaluation."""
    from rlhf_pipeline.report.summary import summary

    metrics = {}
    for stage in ("data", *STAGES):
        file = folder / paths.metrics(stage)
        if file.is_file():
            metrics[stage] = json.loads(file.read_text(encoding="utf-8"))
    try:
        return summary(metrics, wall_s)
    except errors.DataError:
        return ""


def report_url(folder: Path) -> str | None:
    """The report's address on the page server of `make ui`, while that runs."""
    file = paths.workspace() / REPORTS_FILE
    if not file.is_file():
        return None
    base = file.read_text(encoding="utf-8").strip()
    return f"{base}/{(folder / paths.REPORT_HTML).relative_to(paths.workspace())}"


def curve_image(file: Path) -> str | None:
    """The main columns of a learning curve as a PNG in a data: address."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    names = [name for name in CURVE_COLUMNS if rows and any(row.get(name) for row in rows)]
    if not names:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 1.8 * len(names)), layout="constrained")
    for axes, name in zip(
        figure.subplots(len(names), 1, squeeze=False, sharex=True)[:, 0], names, strict=True
    ):
        points = [(float(row["step"]), float(row[name])) for row in rows if row.get(name)]
        axes.plot(*zip(*points, strict=True))
        axes.set_ylabel(name)
    axes.set_xlabel("step")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
