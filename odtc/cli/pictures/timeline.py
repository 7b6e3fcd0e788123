"""The time line of a profile: operators over what the device felt, as a page of HTML.

Along x is time, the same in all charts of the page. The page fetches nothing; without its script it
is the same picture, but without a closer look.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from odtc.charts.chart import Axis, Chart
from odtc.charts.palette import OTHER, colour_class, line_class
from odtc.charts.rows import Area, Areas, Line, Place, Plane, Row
from odtc.charts.scales import Lanes, Linear, unit_of
from odtc.cli.console import readable_bytes
from odtc.cli.pictures.timeline_page import page
from odtc.core.disk.files import atomic_write

if TYPE_CHECKING:
    from odtc.runtime_rpc.metrics.samples import Series
    from odtc.runtime_rpc.profile.record import Profile, Timed

# Of a very long profile, the first calls are drawn.
_MOST_CALLS = 20_000
# The lanes of the first chart, and the colour of what lies in each.
_LANES = {
    "steps": OTHER,
    "forward": colour_class(0),
    "backward": colour_class(1),
    "update": colour_class(2),
    "upload": colour_class(3),
    "download": colour_class(4),
    "link": colour_class(5),
}
# How much of a lane its bars leave free, above and below.
_FREE = 0.12
# Marks at the left of the other charts, which are low.
_MARKS = 4

_Part = tuple[float, float, float]
# Begin and end in seconds of the device, and what is said of it.
_Bar = tuple[float, float, str]


@dataclass(frozen=True)
class _Curve:
    """A line of a chart.

    Attributes:
        label: of the line.
        parts: begin, end and value of each, in seconds of the device and in the chart's unit.
    """

    label: str
    parts: Sequence[_Part]


@dataclass(frozen=True)
class _Summed:
    """Bars of which the table says what they are together: there may be thousands."""

    bars: Areas
    seconds: float

    @property
    def label(self) -> str:
        """What the legend says."""
        return self.bars.label

    def body(self, plane: Plane) -> Iterator[str]:
        """The bars."""
        return self.bars.body(plane)

    def key(self) -> str:
        """A square."""
        return self.bars.key()

    def data(self) -> Iterator[str]:
        """How many there are, and how long they take."""
        yield f"{len(self.bars.areas):,}, {1e3 * self.seconds:,.3f} ms together"


def draw(profile: "Profile", path: str | os.PathLike[str]) -> None:
    """Writes the page, whole or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    text = page(profile, charts_of(profile))
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def charts_of(profile: "Profile") -> list[Chart]:
    """The charts of a profile: what ran, and all that is known of how the device felt."""
    length = max(1e3 * (profile.ended - profile.began), 1e-6)
    across = Axis(Linear(length), "time (ms)")
    summary = f"{len(profile.steps)} steps in {length:,.2f} ms, each operator at its time"
    ran = _ran(profile)
    lanes = Axis(Lanes([*ran]), "what ran")
    return [
        Chart("Steps and operators", summary, across, lanes, [*_bars(profile, ran)]),
        *(chart for chart in _felt(profile, across) if chart.rows),
    ]


def _ran(profile: "Profile") -> dict[str, list[_Bar]]:
    """What ran, by its lane; a lane with nothing in it is left out."""
    lanes: dict[str, list[_Bar]] = {name: [] for name in _LANES}
    for number, step in enumerate(profile.steps):
        for part, run in enumerate(step):
            of = f", micro-batch {part}" if len(step) > 1 else ""
            lanes["steps"].append((run.begin, run.end, f"step {number}{of}"))
    for call in _calls(profile):
        operator = profile.operators[call.operator]
        tip = (
            f"{operator.label}\n{operator.phase}, {operator.kernel}\n"
            f"{readable_bytes(operator.live_bytes)} alive"
        )
        lanes[operator.phase.value].append((call.begin, call.end, tip))
    for move in profile.moves:
        lanes[move.kind].append((move.begin, move.end, move.kind))
    return {lane: bars for lane, bars in lanes.items() if bars}


def _bars(profile: "Profile", lanes: dict[str, list[_Bar]]) -> Iterator[Row]:
    """A row for each lane."""
    for number, (lane, found) in enumerate(lanes.items()):
        top, bottom = number + _FREE, number + 1 - _FREE
        areas = [
            Area(
                (_ms(profile, begin), bottom),
                (_ms(profile, end), top),
                f"{tip}\n{1e3 * (end - begin):.3f} ms",
            )
            for begin, end, tip in found
        ]
        seconds = sum(end - begin for begin, end, _ in found)
        yield _Summed(Areas(lane, _LANES[lane], areas), seconds)


def _felt(profile: "Profile", across: Axis) -> Iterator[Chart]:
    """All that may be known of how the device felt, a chart for each kind."""
    samples = profile.samples
    cores = samples.cores

    def told(names: Iterable[str], scale: float = 1.0) -> list[_Curve]:
        return [_sampled(name, samples.series.get(name), scale) for name in names]

    def chart(title: str, unit: str, curves: Sequence[_Curve], most: float = 0.0) -> Chart:
        known = [curve for curve in curves if curve.parts]
        most = most or 1.05 * max((v for c in known for *_, v in c.parts), default=0.0) or 1.0
        up = Axis(Linear(most, about=_MARKS), unit)
        lines = [_line(profile, number, curve, unit) for number, curve in enumerate(known)]
        return Chart(title, f"{title}, in {unit}, over the time of the run", across, up, lines)

    used = [_sampled(core, samples.utilization(core)) for core in cores]
    yield chart("Utilization of cores", "%", used, 100.0)
    clocks = told((f"{core}.frequency" for core in cores), 1e9)
    yield chart("Frequency of cores", "GHz", clocks)
    yield chart("Utilization of the GPU", "%", [_sampled("GPU", samples.utilization("gpu"))], 100.0)
    yield chart("Power", "W", [_sampled("power", samples.power())])
    heats = [name for name in samples.series if name.startswith("temperature.")]
    yield chart("Temperature", "°C", told(heats))
    unit, name = unit_of(profile.peak_bytes)
    yield chart("Bytes of the arena that are alive", name, [_Curve("alive", _alive(profile, unit))])
    resident = samples.series.get("resident")
    unit, name = unit_of(max(resident.values) if resident else 0)
    yield chart("Resident memory", name, [_sampled("resident", resident, unit)])


def _line(profile: "Profile", number: int, curve: _Curve, unit: str) -> Line:
    places: list[Place] = []
    for begin, end, value in curve.parts:
        places += [(_ms(profile, begin), value), (_ms(profile, end), value)]
    values = [value for *_, value in curve.parts]
    said = f"{min(values):.4g} to {max(values):.4g} {unit}"
    return Line(curve.label, line_class(number), places, said)


def _sampled(label: str, series: "Series | None", scale: float = 1.0) -> _Curve:
    parts = series.intervals() if series else ()
    return _Curve(label, [(begin, end, value / scale) for begin, end, value in parts])


def _alive(profile: "Profile", unit: int) -> list[_Part]:
    """Bytes that hold a tensor, by time."""
    return [
        (call.begin, call.end, profile.operators[call.operator].live_bytes / unit)
        for call in _calls(profile)
    ]


def _calls(profile: "Profile") -> list["Timed"]:
    """The calls that are drawn."""
    calls = (call for step in profile.steps for run in step for call in run.calls)
    return list(islice(calls, _MOST_CALLS))


def _ms(profile: "Profile", time: float) -> float:
    """Milliseconds since the profile began."""
    return 1e3 * (time - profile.began)
