"""Parallel coordinates: one line per run through one axis per param or figure, as a page of its own.

Numbers lie on their axis by size, words by order of appearance; a run that lacks a value skips the axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from .svg import number

_STEP, _TOP, _FLOOR, _SIDE = 130, 34, 250, 60
_STYLE = Path(__file__).parent / "templates" / "style.css"
_MORE = """
main { max-width: none; } figure { overflow-x: auto; } figure svg { min-width: 640px; }
svg .axis { stroke: var(--dim); } svg .name { text-anchor: middle; fill: var(--ink); font-size: 12px; }
svg .end { paint-order: stroke; stroke: var(--card); stroke-width: 5px; }
svg .run { fill: none; stroke-width: 2; opacity: .85; } svg .run:hover { stroke-width: 4; opacity: 1; }
ul.legend { list-style: none; padding: 0; }
"""


def page(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A self-contained page over runs (name, axis -> value)."""
    key = "".join(
        f'<li><i style="background:{_colour(index, len(runs))}"></i>{escape(name)}</li>'
        for index, (name, _) in enumerate(runs)
    )
    style = _STYLE.read_text(encoding="utf-8") + _MORE
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Runs compared</title><style>{style}</style></head><body><main><h1>Runs compared</h1>"
        f'<ul class="legend">{key}</ul><figure class="card">{chart(runs)}</figure></main></body></html>\n'
    )


def chart(runs: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The drawing alone, as SVG text."""
    names = list(dict.fromkeys(name for _, values in runs for name in values))
    places = [_Axis([values.get(name) for _, values in runs]) for name in names]
    width = 2 * _SIDE + _STEP * max(1, len(names) - 1)
    parts, ends = [], []
    for index, (name, axis) in enumerate(zip(names, places, strict=True)):
        x = _SIDE + _STEP * index
        parts.append(f'<line class="axis" x1="{x}" x2="{x}" y1="{_TOP}" y2="{_FLOOR}"/>')
        parts.append(f'<text class="name" x="{x}" y="{14 if index % 2 else 26}">{escape(name)}</text>')
        for y, text in axis.labels():
            ends.append(f'<text class="end" x="{x + 5}" y="{y + 4:.1f}">{escape(text)}</text>')
    for index, (run, values) in enumerate(runs):
        points = [
            f"{_SIDE + _STEP * place},{axis(values[name]):.1f}"
            for place, (name, axis) in enumerate(zip(names, places, strict=True))
            if values.get(name) is not None
        ]
        # Dashes let a run show through another that has the same values.
        dashes = f'stroke-dasharray="12 {4 * index}" ' if index else ""
        parts.append(
            f'<polyline class="run" stroke="{_colour(index, len(runs))}" {dashes}points="{" ".join(points)}">'
            f"<title>{escape(run)}</title></polyline>"
        )
    return f'<svg viewBox="0 0 {width} {_FLOOR + 20}" role="img">{"".join(parts + ends)}</svg>'


class _Axis:
    """Where a value lies on one axis."""

    def __init__(self, values: Sequence[Any]):
        known = [value for value in values if value is not None]
        self.numeric = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known)
        self.words = list(dict.fromkeys(map(str, known)))
        numbers = known if self.numeric else range(len(self.words))
        self.low, self.high = min(numbers, default=0), max(numbers, default=0)

    def __call__(self, value: Any) -> float:
        place = value if self.numeric else self.words.index(str(value))
        share = (place - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return _FLOOR - share * (_FLOOR - _TOP)

    def labels(self) -> list[tuple[float, str]]:
        """(y, text) of the ends of a numeric axis, or of every word."""
        if not self.numeric:
            return [(self(word), word) for word in self.words]
        return [(self(end), number(end)) for end in dict.fromkeys([self.low, self.high])]


def _colour(index: int, count: int) -> str:
    """Hues evenly around the circle, light enough for dark pages and dark enough for light ones."""
    return f"hsl({round(210 + 360 * index / max(1, count)) % 360} 65% 52%)"
