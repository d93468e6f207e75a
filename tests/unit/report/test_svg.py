"""Charts: round ticks, points where they belong, text that cannot break out of the drawing."""

import math
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from rlhf_pipeline.report import svg

XLINK = "{http://www.w3.org/2000/svg}"


def parse(text: str) -> Any:
    return ET.fromstring(text)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.13, 0.47, [0.2, 0.3, 0.4]), (-1, 1, [-1, -0.5, 0, 0.5, 1])],
)
def test_ticks_are_round(low: Any, high: Any, expected: Any) -> None:
    assert svg.ticks(low, high, 4) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (0.12345, "0.123"),
        (123.456, "123"),
        (-2.0, "-2"),
        (0.00012, "0.00012"),
        (45000, "4.5e+04"),
    ],
)
def test_numbers_are_short(value: Any, text: Any) -> None:
    assert svg.number(value) == text


def test_a_line_goes_through_its_points_and_skips_gaps() -> None:
    drawn = parse(svg.line_chart([svg.Series("one", [0, 1, 2], [0.0, None, 1.0], "policy")]))
    line = drawn.find("polyline")
    places = [tuple(map(float, place.split(","))) for place in line.get("points").split()]
    assert len(places) == 2
    assert places[0][0] == svg.LEFT
    assert places[1][0] == svg.WIDTH - svg.RIGHT
    assert places[0][1] > places[1][1]


def test_a_flat_line_and_a_single_point_can_be_drawn() -> None:
    for y in ([0.0, 0.0], [3.0, 3.0]):
        parse(svg.line_chart([svg.Series("flat", [1, 2], y, "policy")]))
    parse(svg.line_chart([svg.Series("single", [5], [1.0], "policy")]))


def test_marks_and_names_are_escaped() -> None:
    text = svg.line_chart(
        [svg.Series("it's <b>", [0, 1], [0.0, 1.0], "policy")], [svg.Mark(0.5, 'a < b & "c"', "bad")]
    )
    drawn = parse(text)
    assert drawn.find("line[@class='mark bad']/title").text == 'a < b & "c"'
    assert "it's <b>" in drawn.get("data-series")


def test_interval_rows_lie_between_their_ends() -> None:
    drawn = parse(svg.interval_chart([svg.Row("a", 0.5, 0.4, 0.7, "policy")], level=(0.5, "half")))
    bar, dot = drawn.find("line[@class='interval policy']"), drawn.find("circle")
    assert float(bar.get("x1")) < float(dot.get("cx")) < float(bar.get("x2"))
    assert dot.get("cx") == drawn.find("line[@class='level']").get("x1")


def test_best_point_is_ringed() -> None:
    drawn = parse(svg.plane_chart([(0, 0, "a"), (1, 2, "b")], "x", best=1))
    ring = drawn.find("circle[@class='ring']")
    assert ring.get("cx") == drawn.findall("circle[@class='dot policy']")[1].get("cx")


def test_bars_below_zero_are_coloured_otherwise_and_heights_follow_counts() -> None:
    drawn = parse(svg.histogram([-1, 0, 1], [10, 40], "margin"))
    wrong, right = drawn.findall("rect")
    assert wrong.get("class") == "bar warn"
    assert math.isclose(float(right.get("height")) / float(wrong.get("height")), 4, rel_tol=0.01)
