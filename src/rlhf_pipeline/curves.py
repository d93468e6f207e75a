"""Learning curves as CSV text: `step` first, one row a step, empty where a figure was not measured."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence


def curve(columns: Sequence[str], rows: Mapping[int, Mapping[str, float]]) -> str:
    """The CSV of figures by step; six significant digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    for step, row in rows.items():
        writer.writerow({"step": step, **{name: f"{value:.6g}" for name, value in row.items()}})
    return text.getvalue()
