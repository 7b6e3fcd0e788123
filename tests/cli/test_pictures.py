"""Pictures of plans: what a legend explains is what is drawn, and all of it can be seen."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

from odtc.cli.pictures import frontier_plot
from odtc.cli.pictures.svg import TOP, WIDTH
from odtc.driver.planning import Frontier, Point

_MARK = re.compile(r'<(circle|polygon) class="point" fill="(#\w+)"[^>]*?(?:points="([^"]*)")?>')
_ENTRY = re.compile(r'<text class="" x="([\d.]+)" y="([\d.]+)" text-anchor="start">([^<]+)')


def _form(match: re.Match[str]) -> tuple[str, tuple[tuple[float, float], ...]]:
    """The colour of a mark, and its corners from the first."""
    corners = [tuple(map(float, each.split(","))) for each in (match[3] or "").split()]
    moved = ((round(x - corners[0][0], 1), round(y - corners[0][1], 1)) for x, y in corners)
    return match[2], tuple(moved)


def _drawn(tmp_path: Path, frontier: Frontier) -> str:
    frontier_plot.draw(frontier, "a step", tmp_path / "plot.svg")
    text = (tmp_path / "plot.svg").read_text()
    ElementTree.fromstring(text)
    return text


def _points(ways: Iterable[tuple[int, bool, bool]]) -> tuple[Point, ...]:
    return tuple(
        Point(1000 - n, 1 + n / 10, 9, 0, micro_batches=parts, half=half, direct=direct)
        for n, (parts, half, direct) in enumerate(ways)
    )


def test_no_two_kinds_of_points_have_one_mark(tmp_path: Path):
    ways = list(product((1, 2, 4, 8, 16, 32, 64), (False, True), (False, True)))
    text = _drawn(tmp_path, Frontier(_points(ways), 300, 5, 5))
    counts = Counter(_form(match) for match in _MARK.finditer(text))
    # One in the legend, and one in the plot.
    assert len(counts) == len(ways)
    assert {*counts.values()} == {2}


def test_every_entry_of_a_legend_can_be_seen(tmp_path: Path):
    points = _points((2 ** (n // 2), bool(n % 2), True) for n in range(9))
    known = {name: points[:1] for name in ("segments", "revolve", "minimum cut", "greedy")}
    text = _drawn(tmp_path, Frontier(points, 300, 5, 5, strategies=known))
    found = _ENTRY.findall(text)
    assert len(found) == 9 + len(known) + 1
    for x, y, label in found:
        assert float(x) + 7 * len(label) < WIDTH, label
        assert float(y) < TOP, label
