"""The rows of a chart: each is a label, how it is marked, and all that is drawn so.

The legend, the picture and the table of a chart are made of the same rows; so what a legend says of
a mark holds for all that has it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from odtc.charts.palette import Mark
from odtc.charts.scales import Scale

# Size of a key in a legend.
KEY_WIDTH, KEY_HEIGHT = 24, 14
# A plot is at least about so large in points: edges are no wider than a part of what they surround.
_WIDTH, _HEIGHT = 320, 240
_EDGE = 0.7

# A place in a chart by its two values.
Place = tuple[float, float]


@dataclass(frozen=True)
class Plane:
    """Maps places to percent of a plot, from its left and from its top."""

    across: Scale
    up: Scale

    def at(self, place: Place) -> Place:
        """Where a place lies."""
        return self.across.at(place[0]), 100 - self.up.at(place[1])


class Row(Protocol):
    """A row of a chart."""

    @property
    def label(self) -> str:
        """What the legend says."""
        ...

    def body(self, plane: Plane) -> Iterator[str]:
        """What is drawn, as SVG whose places are in percent of the plot."""
        ...

    def key(self) -> str:
        """Its mark in the legend, as SVG of `KEY_WIDTH` by `KEY_HEIGHT`."""
        ...

    def data(self) -> Iterator[str]:
        """A line of the table for each thing that is drawn."""
        ...


@dataclass(frozen=True)
class Dot:
    """A point, and what is said of it."""

    place: Place
    tip: str


@dataclass(frozen=True)
class Points:
    """Points of one kind.

    Attributes:
        label: of the kind.
        mark: that all of them have.
        dots: from the left to the right.
        joined: whether a line leads through them.
    """

    label: str
    mark: Mark
    dots: Sequence[Dot]
    joined: bool = True

    def body(self, plane: Plane) -> Iterator[str]:
        """The line, and the points."""
        if self.joined:
            yield path([plane.at(dot.place) for dot in self.dots], f"curve {self.mark.colour}")
        for dot in self.dots:
            x, y = plane.at(dot.place)
            yield marked(self.mark, f"{x:.2f}%", f"{y:.2f}%", dot.tip)

    def key(self) -> str:
        """The mark, on a piece of the line."""
        line = _piece(f"curve {self.mark.colour}") if self.joined else ""
        return line + marked(self.mark, f"{KEY_WIDTH / 2:g}", f"{KEY_HEIGHT / 2:g}")

    def data(self) -> Iterator[str]:
        """What is said of each point."""
        return (dot.tip for dot in self.dots)


@dataclass(frozen=True)
class Line:
    """A line without points.

    Attributes:
        label: what it is.
        kind: the class of its style.
        places: that it leads through.
        said: what the table says of it.
    """

    label: str
    kind: str
    places: Sequence[Place]
    said: str = ""

    def body(self, plane: Plane) -> Iterator[str]:
        """The line."""
        yield path([plane.at(place) for place in self.places], self.kind)

    def key(self) -> str:
        """A piece of it."""
        return _piece(self.kind)

    def data(self) -> Iterator[str]:
        """What it is at."""
        yield from [self.said] if self.said else []


@dataclass(frozen=True)
class Area:
    """A rectangle, from one corner to the one across, and what is said of it."""

    low: Place
    high: Place
    tip: str


@dataclass(frozen=True)
class Areas:
    """Rectangles of one kind.

    Attributes:
        label: of the kind.
        colour: the class of their colour.
        areas: the rectangles.
    """

    label: str
    colour: str
    areas: Sequence[Area]

    def body(self, plane: Plane) -> Iterator[str]:
        """The rectangles."""
        for area in self.areas:
            (left, bottom), (right, top) = plane.at(area.low), plane.at(area.high)
            wide, high = right - left, bottom - top
            edge = min(_EDGE, wide * _WIDTH / 600, high * _HEIGHT / 600)
            yield (
                f'<rect class="area {self.colour}" x="{left:.3f}%" y="{top:.3f}%" '
                f'width="{wide:.3f}%" height="{high:.3f}%" stroke-width="{edge:.2f}">'
                f"<title>{escape(area.tip)}</title></rect>"
            )

    def key(self) -> str:
        """A square."""
        return f'<rect class="area {self.colour}" x="6" y="1" width="12" height="12"/>'

    def data(self) -> Iterator[str]:
        """What is said of each."""
        return (area.tip for area in self.areas)


def path(places: Sequence[Place], kind: str) -> str:
    """A line through places in percent."""
    line = " ".join(f"{x:.3f},{y:.3f}" for x, y in places)
    return (
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">'
        f'<polyline class="{kind}" vector-effect="non-scaling-stroke" points="{line}"/></svg>'
    )


def marked(mark: Mark, x: str, y: str, tip: str = "") -> str:
    """A mark at a place, in percent or in points."""
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<svg class="at" x="{x}" y="{y}">{mark.at_origin(title)}</svg>'


def _piece(kind: str) -> str:
    middle = KEY_HEIGHT / 2
    return f'<polyline class="{kind}" points="0,{middle:g} {KEY_WIDTH},{middle:g}"/>'
