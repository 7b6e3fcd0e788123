"""The time line of a profile: operators over what the device felt, as a page of HTML.

Along x is time. The page fetches nothing; without its script it is the same picture, but without
texts at the pointer, and without a closer look.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from odtc.charts.scales import unit_of
from odtc.cli.console import readable_bytes
from odtc.cli.pictures.svg import line_between, step_of, text_at
from odtc.cli.pictures.timeline_page import page
from odtc.core.disk.files import atomic_write

if TYPE_CHECKING:
    from odtc.runtime_rpc.metrics.samples import Series
    from odtc.runtime_rpc.profile.record import Profile, Timed

WIDTH, LEFT, RIGHT, TOP = 1280, 96, 24, 12
_BAR, _CURVE, _GAP, _FOOT = 30, 84, 22, 40
_MARKS = 10
# Of a very long profile, the first calls are drawn.
_MOST_CALLS = 20_000
_COLOURS = 8

Point = tuple[float, float]


@dataclass(frozen=True)
class _Curve:
    """A line of a row: begin, end and value of each of its parts.

    Attributes:
        label: of the line.
        parts: that it has.
    """

    label: str
    parts: list[tuple[float, float, float]]


@dataclass(frozen=True)
class _Row:
    """Curves with one axis.

    Attributes:
        title: what it shows, with its unit.
        curves: in its unit.
        most: end of the axis; None for what the curves need.
    """

    title: str
    curves: list[_Curve]
    most: float | None = None


def draw(profile: "Profile", path: str | os.PathLike[str]) -> None:
    """Writes the page, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    text = page(profile, "\n".join(_Picture(profile).lines()))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


class _Picture:
    """A profile on a plane."""

    def __init__(self, profile: "Profile") -> None:
        self._profile = profile
        self._began = profile.began
        self._length = max(profile.ended - profile.began, 1e-9)
        self._rows = [row for row in _rows(profile) if any(c.parts for c in row.curves)]
        bars = 3 * _BAR + _GAP
        self._bottom = TOP + bars + len(self._rows) * (_CURVE + _GAP)

    def lines(self) -> Iterator[str]:
        """The SVG, line by line."""
        height = self._bottom + _FOOT
        inside = WIDTH - LEFT - RIGHT
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" id="timeline" role="img" '
            f'aria-label="operators over time" viewBox="0 0 {WIDTH} {height}" '
            f'data-ms="{1e3 * self._length:.6f}" '
            f'data-left="{LEFT}" data-width="{inside}" data-bottom="{self._bottom}">'
        )
        clip = f'<rect x="{LEFT}" y="0" width="{inside}" height="{height}"/>'
        yield f'<defs><clipPath id="inside">{clip}</clipPath></defs>'
        yield from self._heads()
        yield '<g clip-path="url(#inside)"><g class="scaled">'
        yield from self._bars()
        for number, row in enumerate(self._rows):
            yield from self._curves(row, self._base(number))
        yield "</g></g>"
        yield from self._axis()
        yield "</svg>"

    def _base(self, number: int) -> float:
        """Where the axis of a row lies."""
        return TOP + 3 * _BAR + _GAP + number * (_CURVE + _GAP) + _CURVE

    def _x(self, time: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (time - self._began) / self._length

    def _heads(self) -> Iterator[str]:
        """The headings of rows, and their axes."""
        for number, name in enumerate(("steps", "operators", "moves")):
            yield text_at(LEFT - 8, TOP + number * _BAR + 19, name, "quiet", "end")
        for number, row in enumerate(self._rows):
            base, most = self._base(number), _most(row)
            yield text_at(LEFT + 4, base - _CURVE - 4, row.title, "head")
            for part in (0.0, 0.5, 1.0):
                y = base - part * _CURVE
                yield line_between(LEFT, y, WIDTH - RIGHT, y, "grid" if part else "axis")
                yield text_at(LEFT - 8, y + 4, f"{part * most:.3g}", "quiet", "end")
            x = LEFT + 12.0 + 7.5 * len(row.title)
            for place, curve in enumerate(row.curves):
                if len(row.curves) > 1:
                    yield text_at(x, base - _CURVE - 4, curve.label, f"t{place % _COLOURS}")
                    x += 14 + 7.5 * len(curve.label)

    def _bars(self) -> Iterator[str]:
        profile = self._profile
        calls = 0
        for number, step in enumerate(profile.steps):
            for part, run in enumerate(step):
                of = f", micro-batch {part}" if len(step) > 1 else ""
                tip = f"step {number}{of}\n{1e3 * run.seconds:.3f} ms"
                yield self._bar(run.begin, run.end, 0, "step", tip)
                calls += len(run.calls)
                if calls <= _MOST_CALLS:
                    yield from map(self._operator, run.calls)
        for move in profile.moves:
            tip = f"{move.kind}\n{1e3 * move.seconds:.3f} ms"
            yield self._bar(move.begin, move.end, 2, move.kind, tip)

    def _operator(self, call: "Timed") -> str:
        operator = self._profile.operators[call.operator]
        tip = (
            f"{operator.label}\n{operator.phase}, {operator.kernel}\n{1e3 * call.seconds:.3f} ms\n"
            f"{readable_bytes(operator.live_bytes)} alive"
        )
        return self._bar(call.begin, call.end, 1, f"operator {operator.phase}", tip)

    def _bar(self, begin: float, end: float, row: int, kind: str, tip: str) -> str:
        x, y = self._x(begin), TOP + row * _BAR
        width = max(self._x(end) - x, 0.02)
        place = f'x="{x:.3f}" y="{y}" width="{width:.3f}" height="{_BAR - 4}"'
        return f'<rect class="{kind}" {place} data-tip="{_attribute(tip)}"/>'

    def _curves(self, row: _Row, base: float) -> Iterator[str]:
        most = _most(row)
        for number, curve in enumerate(row.curves):
            points: list[Point] = []
            for begin, end, value in curve.parts:
                y = base - _CURVE * min(1.0, value / most)
                points += [(self._x(begin), y), (self._x(end), y)]
            text = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
            tip = _attribute(f"{row.title}\n{curve.label}")
            yield f'<polyline class="curve c{number % _COLOURS}" points="{text}" data-tip="{tip}"/>'

    def _axis(self) -> Iterator[str]:
        """Time, in milliseconds; the script draws it anew for a closer look."""
        length = 1e3 * self._length
        step = step_of(length, _MARKS)
        yield '<g id="axis">'
        for number in range(int(length / step) + 1):
            x = self._x(self._began + number * step / 1e3)
            yield line_between(x, TOP, x, self._bottom, "grid")
            yield text_at(x, self._bottom + 16, f"{number * step:g}", "quiet", "middle")
        yield "</g>"
        yield text_at((LEFT + WIDTH - RIGHT) / 2, self._bottom + 34, "ms", "quiet", "middle")


def _most(row: _Row) -> float:
    """The end of a row's axis."""
    values = [value for curve in row.curves for *_, value in curve.parts]
    return row.most or 1.05 * max(values, default=0.0) or 1.0


def _rows(profile: "Profile") -> Iterator[_Row]:
    """All that may be known of how the device felt."""
    samples = profile.samples
    cores = samples.cores

    def told(names: Iterable[str], scale: float = 1.0) -> list[_Curve]:
        return [_sampled(name, samples.series.get(name), scale) for name in names]

    used = [_sampled(core, samples.utilization(core)) for core in cores]
    yield _Row("utilization of cores, %", used, 100.0)
    yield _Row("frequency of cores, GHz", told((f"{core}.frequency" for core in cores), 1e9))
    yield _Row("utilization of the GPU, %", [_sampled("GPU", samples.utilization("gpu"))], 100.0)
    yield _Row("power, W", [_sampled("power", samples.power())])
    heats = [name for name in samples.series if name.startswith("temperature.")]
    yield _Row("temperature, °C", told(heats))
    unit, name = unit_of(profile.peak_bytes)
    yield _Row(f"arena, bytes alive, {name}", [_Curve("alive", _alive(profile, unit))])
    resident = samples.series.get("resident")
    unit, name = unit_of(max(resident.values) if resident else 0)
    yield _Row(f"resident memory, {name}", [_sampled("resident", resident, unit)])


def _sampled(label: str, series: "Series | None", scale: float = 1.0) -> _Curve:
    parts = series.intervals() if series else ()
    return _Curve(label, [(begin, end, value / scale) for begin, end, value in parts])


def _alive(profile: "Profile", unit: int) -> list[tuple[float, float, float]]:
    """Bytes that hold a tensor, by time."""
    calls: Sequence[Timed] = [c for step in profile.steps for run in step for c in run.calls]
    return [
        (call.begin, call.end, profile.operators[call.operator].live_bytes / unit)
        for call in calls[:_MOST_CALLS]
    ]


def _attribute(text: str) -> str:
    return escape(text).replace("\n", "&#10;")
