"""Rows of values above one axis: samples, bars and ratios, as HTML that is as wide as its page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from odtc.charts.palette import Mark
from odtc.charts.rows import KEY_HEIGHT, KEY_WIDTH, marked
from odtc.charts.scales import Scale, short
from odtc.comparison.measures.measure import spread

# Dots of one strip, at most.
_DOTS = 120


@dataclass(frozen=True)
class Strip:
    """A row of a chart.

    Attributes:
        name: at its left.
        value: at its right.
        marks: SVG of what is shown, of height 20 and of places in percent.
        mark: before the name; None for none.
        group: of the rows that have a head in common; '' for none.
    """

    name: str
    value: str
    marks: str
    mark: Mark | None = None
    group: str = ""


def samples(values: Sequence[float], scale: Scale, mark: Mark) -> str:
    """Every sample as a dot, the quartiles as a box, and the median as a line."""
    kind, found = mark.colour, spread(values)
    left, middle, right = (scale.at(each) for each in (found.lower, found.median, found.upper))
    dots = "".join(
        f'<circle class="dot {kind}" cx="{scale.at(each):.2f}%" cy="10" r="3"/>'
        for each in values[:_DOTS]
    )
    return (
        f'<rect class="box {kind}" x="{left:.2f}%" y="3" width="{max(0.2, right - left):.2f}%" '
        f'height="14" rx="2"/>{dots}<line class="middle {kind}" x1="{middle:.2f}%" '
        f'x2="{middle:.2f}%" y1="2" y2="18"/>'
    )


def bar(value: float, scale: Scale, kind: str, tip: str = "") -> str:
    """A bar from the left."""
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect class="{kind}" x="0" y="4" width="{scale.at(value):.2f}%" height="12" rx="2">'
        f"{title}</rect>"
    )


def point(values: tuple[float, float, float], scale: Scale, mark: Mark, tip: str) -> str:
    """A mark at the middle one of three values, with a line from the first to the last."""
    left, at, right = map(scale.at, values)
    return (
        f'<line class="{mark.colour}" x1="{left:.2f}%" x2="{right:.2f}%" y1="10" y2="10" '
        f'stroke-width="2"/>{marked(mark, f"{at:.2f}%", "10", tip)}'
    )


def chart(
    title: str, unit: str, scale: Scale, strips: Iterable[Strip], *, one: bool = False
) -> str:
    """Rows above an axis.

    Args:
        title: above it.
        unit: of the axis.
        scale: of the axis.
        strips: its rows.
        one: whether there is a line at 1.
    """
    marks = scale.marks()
    lines = "".join(_grid(scale.at(mark)) for mark in marks)
    if one:
        lines += (
            f'<line class="one" x1="{scale.at(1):.2f}%" x2="{scale.at(1):.2f}%" y1="0" y2="20"/>'
        )
    rows, group = [], ""
    for each in strips:
        if each.group != group:
            group = each.group
            rows.append(f'<div class="group">{escape(group)}</div>')
        rows.append(_row(each, lines))
    axis = "".join(
        f'<text x="{scale.at(mark):.2f}%" y="12" text-anchor="middle">{short(mark)}</text>'
        for mark in marks
    )
    return (
        f'<figure class="strips"><figcaption>'
        f'{escape(title)} <span class="quiet">({escape(unit)})</span></figcaption>{"".join(rows)}'
        f'<div class="row axis"><span class="name"></span><svg height="16">{axis}</svg>'
        '<span class="value"></span></div></figure>'
    )


def _row(strip: Strip, lines: str) -> str:
    square = key(strip.mark) if strip.mark else ""
    return (
        f'<div class="row"><span class="name" title="{escape(strip.name)}">{square}'
        f'{escape(strip.name)}</span><svg height="20" aria-hidden="true">{lines}{strip.marks}</svg>'
        f'<span class="value">{escape(strip.value)}</span></div>'
    )


def key(mark: Mark) -> str:
    """A mark before a name."""
    place = marked(mark, f"{KEY_WIDTH / 2:g}", f"{KEY_HEIGHT / 2:g}")
    size = f'width="{KEY_WIDTH}" height="{KEY_HEIGHT}"'
    return f'<svg class="key" {size} aria-hidden="true">{place}</svg>'


def _grid(place: float) -> str:
    return f'<line class="grid" x1="{place:.2f}%" x2="{place:.2f}%" y1="0" y2="20"/>'
