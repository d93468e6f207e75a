"""Small charts as SVG text: lines over steps, points in a plane, intervals in rows, bars.

Colours and fonts come from CSS classes of the page, so that light and dark themes need no second
drawing. Coordinates are in the viewBox's units; the page scales them. Data may hold gaps (None).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 360, 212
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 10, 30
_ROW, _ROWS_TOP = 34, 6


class Series(NamedTuple):
    """One line or set of points."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    style: str
    """CSS class: policy, sft, other, warn."""


class Mark(NamedTuple):
    """A vertical line where something happened."""

    x: float
    text: str
    style: str


class Row(NamedTuple):
    """A value with the ends of its interval."""

    name: str
    value: float
    low: float
    high: float
    style: str


def line_chart(
    series: Sequence[Series],
    marks: Sequence[Mark] = (),
    x_title: str = "step",
    level: tuple[float, str] | None = None,
) -> str:
    """Lines over a common x; single points get dots; `level` is a dashed horizontal line and its name.

    The data travel along in `data-series`, from which the page's script reads what the pointer is at.
    """
    drawn = [one for one in series if any(value is not None for value in one.y)]
    points = [value for one in drawn for value in one.y if value is not None]
    x_scale = _Scale([x for one in drawn for x in one.x], LEFT, WIDTH - RIGHT)
    y_scale = _Scale(points + ([level[0]] if level else []), HEIGHT - BOTTOM, TOP, headroom=True)
    parts = [_frame(x_scale, y_scale, x_title)]
    for mark in marks:
        place = _f(x_scale(mark.x))
        parts.append(
            f'<line class="mark {mark.style}" x1="{place}" x2="{place}" y1="{TOP}" y2="{HEIGHT - BOTTOM}">'
            f"<title>{escape(mark.text)}</title></line>"
        )
    if level:
        place = _f(y_scale(level[0]))
        parts.append(
            f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place}" y2="{place}"/>'
            f'<text class="level" x="{WIDTH - RIGHT}" y="{_f(y_scale(level[0]) - 4)}">'
            f"{escape(level[1])}</text>"
        )
    for one in drawn:
        seen = [(x, y) for x, y in zip(one.x, one.y, strict=True) if y is not None]
        path = " ".join(f"{_f(x_scale(x))},{_f(y_scale(y))}" for x, y in seen)
        parts.append(f'<polyline class="line {one.style}" points="{path}"/>')
        if len(seen) <= 24:
            parts += [_dot(x_scale(x), y_scale(y), one.style) for x, y in seen]
    data = [
        {
            "name": one.name,
            "style": one.style,
            "points": [
                [x, y, round(x_scale(x), 1), round(y_scale(y), 1)]
                for x, y in zip(one.x, one.y, strict=True)
                if y is not None
            ],
        }
        for one in drawn
    ]
    return _svg("".join(parts), HEIGHT, f" data-x=\"{escape(x_title)}\" data-series='{_attribute(data)}'")


def plane_chart(
    points: Sequence[tuple[float, float, str]], x_title: str, best: int | None, style: str = "policy"
) -> str:
    """Points (x, y, text) joined in their order; `best` is ringed, the last one filled more strongly."""
    x_scale = _Scale([x for x, _, _ in points], LEFT, WIDTH - RIGHT, headroom=True)
    y_scale = _Scale([y for _, y, _ in points], HEIGHT - BOTTOM, TOP, headroom=True)
    path = " ".join(f"{_f(x_scale(x))},{_f(y_scale(y))}" for x, y, _ in points)
    parts = [_frame(x_scale, y_scale, x_title), f'<polyline class="line thin {style}" points="{path}"/>']
    for index, (x, y, text) in enumerate(points):
        if index == best:
            parts.append(f'<circle class="ring" cx="{_f(x_scale(x))}" cy="{_f(y_scale(y))}" r="8"/>')
        parts.append(_dot(x_scale(x), y_scale(y), style, text))
    return _svg("".join(parts), HEIGHT)


def interval_chart(rows: Sequence[Row], level: tuple[float, str] | None = None) -> str:
    """One row per value: a dot and its interval on a common axis."""
    height = _ROWS_TOP + _ROW * len(rows) + BOTTOM
    ends = [end for row in rows for end in (row.low, row.high)] + ([level[0]] if level else [])
    scale = _Scale(ends, LEFT + 24, WIDTH - RIGHT - 44, headroom=True)
    floor = height - BOTTOM
    parts = []
    for tick in scale.ticks:
        place = _f(scale(tick))
        parts.append(f'<line class="grid" x1="{place}" x2="{place}" y1="{_ROWS_TOP}" y2="{floor}"/>')
        parts.append(f'<text class="tick x" x="{place}" y="{floor + 14}">{number(tick)}</text>')
    if level:
        place = _f(scale(level[0]))
        parts.append(f'<line class="level" x1="{place}" x2="{place}" y1="{_ROWS_TOP}" y2="{floor}">')
        parts.append(f"<title>{escape(level[1])}</title></line>")
    for index, row in enumerate(rows):
        y = _ROWS_TOP + _ROW * (index + 0.5)
        parts.append(f'<text class="row" x="0" y="{_f(y + 4)}">{escape(row.name)}</text>')
        parts.append(
            f'<line class="interval {row.style}" x1="{_f(scale(row.low))}" x2="{_f(scale(row.high))}"'
            f' y1="{_f(y)}" y2="{_f(y)}"/>'
        )
        text = f"{row.name}: {number(row.value)} [{number(row.low)}, {number(row.high)}]"
        parts.append(_dot(scale(row.value), y, row.style, text, radius=5))
        parts.append(f'<text class="value" x="{WIDTH}" y="{_f(y + 4)}">{number(row.value)}</text>')
    return _svg("".join(parts), height)


def histogram(edges: Sequence[float], counts: Sequence[int], x_title: str) -> str:
    """Bars between `edges` (one more than counts); bars below zero in the warning colour."""
    x_scale = _Scale(edges, LEFT, WIDTH - RIGHT)
    y_scale = _Scale([0, *counts], HEIGHT - BOTTOM, TOP)
    parts = [_frame(x_scale, y_scale, x_title)]
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        left, right, top = x_scale(low), x_scale(high), y_scale(count)
        style = "warn" if high <= 0 else "policy"
        parts.append(
            f'<rect class="bar {style}" x="{_f(left + 0.5)}" y="{_f(top)}"'
            f' width="{_f(max(0.5, right - left - 1))}" height="{_f(y_scale(0) - top)}">'
            f"<title>{number(low)} to {number(high)}: {count}</title></rect>"
        )
    return _svg("".join(parts), HEIGHT)


def calibration_chart(bins: Sequence[dict[str, float]]) -> str:
    """Accuracy over confidence, both from 0.5 to 1, beside the diagonal of a calibrated model."""
    x_scale = _Scale([0.5, 1.0], LEFT, WIDTH - RIGHT)
    y_scale = _Scale([0.5, 1.0, *(row["accuracy"] for row in bins)], HEIGHT - BOTTOM, TOP)
    most = max(row["pairs"] for row in bins)
    parts = [
        _frame(x_scale, y_scale, "confidence in the favoured side"),
        f'<line class="level" x1="{_f(x_scale(0.5))}" y1="{_f(y_scale(0.5))}"'
        f' x2="{_f(x_scale(1))}" y2="{_f(y_scale(1))}"/>',
    ]
    for row in bins:
        text = f"says {row['confidence']:.2f}, right {row['accuracy']:.2f} ({row['pairs']} pairs)"
        radius = 3 + 6 * math.sqrt(row["pairs"] / most)
        parts.append(_dot(x_scale(row["confidence"]), y_scale(row["accuracy"]), "policy", text, radius))
    return _svg("".join(parts), HEIGHT)


def number(value: float) -> str:
    """A number in about three digits, without a tail of zeros."""
    if value == 0:
        return "0"
    if abs(value) >= 10000 or abs(value) < 0.001:
        return f"{value:.2g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Scale:
    """Maps data to the viewBox, over round ticks."""

    def __init__(self, values: Sequence[float], start: float, end: float, headroom: bool = False):
        low, high = min(values), max(values)
        if low == high:
            spread = abs(low) * 0.1 or 1.0
            low, high = low - spread, high + spread
        elif headroom:
            spread = 0.06 * (high - low)
            low, high = (low if low == 0 else low - spread), high + spread
        self.low, self.high, self.start, self.end = low, high, start, end
        self.ticks = ticks(low, high, 4 if abs(end - start) < 220 else 5)

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, most: int) -> list[float]:
    """About `most` round numbers between low and high, 1, 2 or 5 times a power of ten apart."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.7)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + index) * step, 12) + 0.0 for index in range(count)]


def _frame(x_scale: _Scale, y_scale: _Scale, x_title: str) -> str:
    parts = []
    for tick in y_scale.ticks:
        place = _f(y_scale(tick))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{place}" y2="{place}"/>')
        parts.append(
            f'<text class="tick y" x="{LEFT - 6}" y="{_f(y_scale(tick) + 3.5)}">{number(tick)}</text>'
        )
    for tick in x_scale.ticks:
        parts.append(
            f'<text class="tick x" x="{_f(x_scale(tick))}" y="{HEIGHT - BOTTOM + 13}">{number(tick)}</text>'
        )
    parts.append(f'<text class="title" x="{WIDTH - RIGHT}" y="{HEIGHT - 3}">{escape(x_title)}</text>')
    return "".join(parts)


def _dot(x: float, y: float, style: str, text: str = "", radius: float = 2.6) -> str:
    title = f"<title>{escape(text)}</title>" if text else ""
    return f'<circle class="dot {style}" cx="{_f(x)}" cy="{_f(y)}" r="{_f(radius)}">{title}</circle>'


def _svg(content: str, height: float, attributes: str = "") -> str:
    return f'<svg viewBox="0 0 {WIDTH} {_f(height)}" role="img"{attributes}>{content}</svg>'


def _attribute(value: object) -> str:
    return (
        json.dumps(value, separators=(",", ":"))
        .replace("&", "&amp;")
        .replace("'", "&#39;")
        .replace("<", "&lt;")
    )


def _f(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
