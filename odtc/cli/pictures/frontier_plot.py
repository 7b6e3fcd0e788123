"""The frontier of a step: what each budget costs in time, as SVG or as a page of HTML.

Along x are bytes, of the arena and of what only micro-batches need; along y is the time of the
calls, by a model of the target, over that of the step as it is. Each number of micro-batches has a
mark of its own, with float16 for what is saved another one.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import cycle, groupby

from odtc.cli.console import readable_bytes
from odtc.cli.pictures.legend import Entry, curve_of, legend, line_of
from odtc.cli.pictures.marks import Mark, mark_of
from odtc.cli.pictures.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    horizontal_label,
    line_between,
    opening,
    step_of,
    text_at,
    unit_of,
    vertical_label,
    write_picture,
)
from odtc.driver.frontier import Frontier, Point

# Of known ways, whose points have a form that no other has.
_OTHERS = ("#a3a3a8", "#c9a0a0", "#9db8a4", "#8fa8c9")
_LEAST = "#202020"
# Micro-batches, whether what is saved is float16, and whether convolutions are direct.
_Kind = tuple[int, bool, bool]
# Up to how many times what the slowest point takes more, other curves are drawn.
_TALLEST = 2.5
# About how many marks an axis has.
_MARKS_X, _MARKS_Y = 10, 8


def draw(frontier: Frontier, title: str, path: str | os.PathLike[str]) -> None:
    """Writes the picture, whole or not at all.

    Args:
        frontier: what to draw.
        title: of the picture.
        path: where it goes; `.svg` or `.html`.

    Raises:
        OutputError: the file cannot be written.
    """
    write_picture(lambda titles: _Picture(frontier, title, with_titles=titles).lines(), title, path)


class _Picture:
    """A frontier on a plane.

    Args:
        frontier: what to draw.
        title: of the picture.
        with_titles: whether a viewer of the SVG shows a point's text; a page does it by itself.
    """

    def __init__(self, frontier: Frontier, title: str, *, with_titles: bool) -> None:
        self._frontier, self._title, self._with_titles = frontier, title, with_titles
        kinds = sorted({_kind(point) for point in frontier.points})
        self._marks = {kind: mark_of(number) for number, kind in enumerate(kinds)}
        self._most = max(1, frontier.points[0].budget_bytes) * 1.04
        self._others = dict(zip(frontier.strategies, cycle(_OTHERS), strict=False))
        # Known ways may be so slow that nothing else could be seen.
        more = max(point.time for point in frontier.points) - 1
        known = (point.time for points in frontier.strategies.values() for point in points)
        self._slowest = 1 + max(0.01, min(max(known, default=1) - 1, _TALLEST * more), more) * 1.06

    def lines(self) -> Iterator[str]:
        """The SVG, line by line."""
        yield from opening(self._title, self._summary())
        yield from self._legend()
        yield from self._axes()
        x = self._x(self._frontier.lower_bound_bytes)
        yield line_between(x, TOP, x, HEIGHT - BOTTOM, "bound")
        for name, points in self._frontier.strategies.items():
            seen = [point for point in points if point.time <= self._slowest]
            yield from self._curve(seen, Mark(self._others[name]))
        yield self._line([(each.budget_bytes, each.time) for each in self._frontier.least], _LEAST)
        for kind, points in groupby(self._frontier.points, _kind):
            yield from self._curve(list(points), self._marks[kind])
        yield "</svg>"

    def _x(self, count: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * count / self._most

    def _y(self, time: float) -> float:
        share = (time - 1) / (self._slowest - 1)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def _summary(self) -> str:
        found, last = self._frontier, self._frontier.points[-1]
        most, least, beside = map(
            readable_bytes,
            (
                found.points[0].budget_bytes,
                last.budget_bytes,
                found.parameter_bytes + found.optimizer_bytes,
            ),
        )
        return (
            f"{most} as it is, {least} at least, in {last.time:.2f} times the time; beside these "
            f"{beside} of parameters and optimizer state"
        )

    def _legend(self) -> Iterator[str]:
        """The marks of points, the curves, and the line of the bound."""
        kinds = [Entry(_label(*kind), mark.at) for kind, mark in self._marks.items()]
        others = [Entry(name, curve_of(colour)) for name, colour in self._others.items()]
        least = [Entry("no plan is below", curve_of(_LEAST))] if self._frontier.least else []
        bound = Entry("no budget is below this", line_of("bound"))
        yield from legend([*kinds, *others, *least, bound])

    def _axes(self) -> Iterator[str]:
        left, right, bottom = self._x(0), self._x(self._most), self._y(1)
        step = step_of(self._slowest - 1, _MARKS_Y)
        for number in range(int((self._slowest - 1) / step) + 1):
            y = self._y(1 + number * step)
            yield line_between(left, y, right, y, "grid" if number else "axis")
            yield text_at(left - 8, y + 4, f"{1 + number * step:.4g}", "quiet", "end")
        unit, name = unit_of(self._most)
        step = step_of(self._most / unit, _MARKS_X)
        for number in range(int(self._most / unit / step) + 1):
            x = self._x(number * step * unit)
            yield line_between(x, bottom, x, bottom + 5, "axis")
            yield text_at(x, bottom + 20, f"{number * step:,g}", "quiet", "middle")
        yield horizontal_label(f"budget ({name})")
        yield vertical_label("time, over that of the step as it is (model)")

    def _line(self, points: Iterable[tuple[int, float]], colour: str) -> str:
        line = " ".join(f"{self._x(count):.2f},{self._y(time):.2f}" for count, time in points)
        return f'<polyline class="way" stroke="{colour}" points="{line}"/>'

    def _curve(self, points: Sequence[Point], mark: Mark) -> Iterator[str]:
        yield self._line([(each.budget_bytes, each.time) for each in points], mark.colour)
        for point in points:
            x, y, tip = self._x(point.budget_bytes), self._y(point.time), escape(_tip(point))
            if self._with_titles:
                yield mark.at(x, y, inside=f"<title>{tip}</title>")
            else:
                yield mark.at(x, y, attributes=f' data-tip="{tip}"')


def _kind(point: Point) -> _Kind:
    return point.micro_batches, point.half, point.direct


def _label(micro_batches: int, half: bool, direct: bool) -> str:
    parts = "calls again" if micro_batches == 1 else f"{micro_batches} micro-batches"
    return ", ".join([parts, *["float16"] * half, *["direct"] * direct])


def _tip(point: Point) -> str:
    parts = f", {point.micro_batches} micro-batches" if point.micro_batches > 1 else ""
    half = ", saved as float16" if point.half else ""
    direct = ", direct convolutions" if point.direct else ""
    stored = f", {point.stored_bytes:,} bytes in a file" if point.stored_bytes else ""
    return (
        f"{point.budget_bytes:,} bytes, {point.time:.3f} of the time: "
        f"{point.repeated:,} of {point.calls:,} calls again{parts}{half}{direct}{stored}"
    )
