"""Pictures of plans: what a legend says of a mark holds for all points that have it."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from odtc.charts.chart import Chart
from odtc.charts.file import page, svg
from odtc.charts.rows import Line
from odtc.cli.pictures.frontier_plot import chart_of
from odtc.driver.frontier import Frontier, Least, Point
from tests.charts.reading import bare, legend_of, points_of

KNOWN = ("segments", "revolve", "minimum cut", "greedy")


def drawn(kinds: int) -> tuple[Frontier, Chart]:
    """A frontier of so many kinds of points, two of each, with all else that one can have."""
    ways = list(product((1, 2, 4, 8, 16, 32, 64), (False, True), (False, True)))[:kinds]
    points = tuple(
        Point(10_000 - 100 * n, 1 + n / 10, 9, n % 9, micro_batches=parts, half=half, direct=direct)
        for n, (parts, half, direct) in enumerate(way for way in ways for _ in range(2))
    )
    known = {name: (Point(9000 + n, 1.05, 77 + n, 0),) for n, name in enumerate(KNOWN)}
    least = (Least(8000, 1.1), Least(4000, 1.3))
    found = Frontier(points, 300, 5, 5, strategies=known, least=least)
    return found, chart_of(found, "a step")


def said_of(tip: str) -> str:
    """The entry of the legend that a point's own text asks for."""
    known = re.search(r"of (\d+) calls", tip)
    assert known
    if int(known[1]) >= 77:
        return KNOWN[int(known[1]) - 77]
    parts = re.search(r"\d+ micro-batches", tip)
    half = ["float16"] * ("as float16" in tip)
    return ", ".join([parts[0] if parts else "one batch", *half, *["direct"] * ("direct" in tip)])


@pytest.mark.parametrize("write", [svg, page])
@pytest.mark.parametrize("kinds", [1, 9, 26])
def test_a_legend_says_of_each_point_what_it_is(write: Callable[[Chart], str], kinds: int) -> None:
    frontier, chart = drawn(kinds)
    root = bare(write(chart))
    legend = legend_of(root)
    named = {mark: label for label, mark in legend}
    assert len(named) == len(legend) == kinds + len(KNOWN)
    points = points_of(root)
    assert len(points) == len(frontier.points) + len(KNOWN)
    for point in points:
        assert named[point.mark] == said_of(point.tip), point


def test_what_is_not_in_the_picture_is_not_in_its_legend() -> None:
    """A way that is slower than its end is told; a bound of what no budget can be is left out."""
    frontier, _ = drawn(1)
    far = {"fast": (Point(9000, 1.05, 77, 0),), "slow": (Point(9000, 9.0, 77, 0),), "none": ()}
    least = (Least(9000, 1.02), Least(8000, 9.0), Least(200, 1.05))
    chart = chart_of(replace(frontier, strategies=far, least=least), "a step")
    assert chart.summary.endswith("; slower than the picture shows: slow")
    assert [label for label, _ in legend_of(bare(svg(chart)))] == ["fast", "one batch"]
    (line,) = (row for row in chart.rows if row.label == "no plan is below")
    assert isinstance(line, Line)
    assert [time for _, time in line.places] == [1.02]


@pytest.mark.parametrize("write", [svg, page])
def test_a_point_lies_where_its_text_says(write: Callable[[Chart], str]) -> None:
    _, chart = drawn(9)
    for point in points_of(bare(write(chart))):
        told = re.match(r"([\d,]+) bytes, ([\d.]+) of the time", point.tip)
        assert told
        kibibytes = int(told[1].replace(",", "")) / 1024
        assert point.x == pytest.approx(chart.across.scale.at(kibibytes), abs=0.01)
        assert point.y == pytest.approx(100 - chart.up.scale.at(float(told[2])), abs=0.1)


def test_a_page_has_its_data_as_a_table() -> None:
    frontier, chart = drawn(9)
    cells = [list(row) for row in bare(page(chart)).iter("tr")]
    rows = [("".join(kind.itertext()), "".join(said.itertext())) for kind, said in cells[1:]]
    points = [row for row in rows if "of the time" in row[1]]
    assert len(points) == len(frontier.points) + len(KNOWN)
    assert all(kind == said_of(said) for kind, said in points)
    assert ("no budget is below this", "300 bytes") in rows
