"""Charts as rows of a name, a strip of SVG and a value; and curves on a plane."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from odtc.comparison.measures.measure import spread
from odtc.report.html import colour_of, key
from odtc.report.scales import Linear, Scale, short

# Dots of one strip, at most.
_DOTS = 120
_HEIGHT = 220


@dataclass(frozen=True)
class Strip:
    """A row of a chart.

    Attributes:
        name: at its left.
        value: at its right.
        marks: SVG of what is shown, of height 20 and of places in percent.
        colour: of the square before the name; '' for none.
        group: of the rows that have a head in common; '' for none.
    """

    name: str
    value: str
    marks: str
    colour: str = ""
    group: str = ""


def samples(values: Sequence[float], scale: Scale, engine: str) -> str:
    """Every sample as a dot, the quartiles as a box, and the median as a line."""
    kind, found = colour_of(engine), spread(values)
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


def point(values: tuple[float, float, float], scale: Scale, engine: str) -> str:
    """A dot at the middle one of three values, with a line from the first to the last."""
    kind, tip = colour_of(engine), escape(f"{engine}: {values[1]:.2f}")
    left, at, right = map(scale.at, values)
    return (
        f'<line class="{kind}" x1="{left:.2f}%" x2="{right:.2f}%" y1="10" y2="10" '
        f'stroke-width="2"/><circle class="{kind}" cx="{at:.2f}%" cy="10" r="5">'
        f"<title>{tip}</title></circle>"
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
        f'<figure class="chart" role="img" aria-label="{escape(title)}"><figcaption>'
        f'{escape(title)} <span class="quiet">({escape(unit)})</span></figcaption>{"".join(rows)}'
        f'<div class="row axis"><span class="name"></span><svg height="16">{axis}</svg>'
        '<span class="value"></span></div></figure>'
    )


def _row(strip: Strip, lines: str) -> str:
    square = key(strip.colour) if strip.colour else ""
    return (
        f'<div class="row"><span class="name" title="{escape(strip.name)}">{square}'
        f'{escape(strip.name)}</span><svg height="20" aria-hidden="true">{lines}{strip.marks}</svg>'
        f'<span class="value">{escape(strip.value)}</span></div>'
    )


def _grid(place: float) -> str:
    return f'<line class="grid" x1="{place:.2f}%" x2="{place:.2f}%" y1="0" y2="20"/>'


def curves(
    title: str,
    units: tuple[str, str],
    lines: Mapping[str, Sequence[tuple[float, float]]],
    *,
    from_one: bool = False,
) -> str:
    """Curves with dots on a plane, both axes from 0.

    Args:
        title: above it.
        units: of the axis at the bottom, and of that at the left.
        lines: by an engine's name: points, by rising x.
        from_one: whether the axis at the left begins at 1.
    """
    points = [each for line in lines.values() for each in line]
    base = 1.0 if from_one else 0.0
    across = Linear(max(x for x, _ in points) * 1.03)
    up = Linear(max(max(y for _, y in points) - base, 1e-9) * 1.08)
    body = ""
    for name, line in lines.items():
        places = [(across.at(x), 100 - up.at(y - base)) for x, y in line]
        body += _curve(places, colour_of(name), [f"{name}: {x:g}, {y:g}" for x, y in line])
    return plane(title, units, (across, up), body, base)


def plane(
    title: str, units: tuple[str, str], scales: tuple[Scale, Scale], body: str, base: float = 0.0
) -> str:
    """Axes at the bottom and at the left of what is drawn.

    Args:
        title: above it.
        units: of the axis at the bottom, and of that at the left.
        scales: of the same.
        body: SVG, whose places are percentages.
        base: what the axis at the left begins at.
    """
    across, up = scales
    grid = "".join(_horizontal(100 - up.at(mark)) for mark in up.marks())
    left = "".join(
        f'<text x="100%" y="{100 - up.at(mark):.2f}%" dy="4" text-anchor="end">'
        f"{short(float(f'{mark + base:.6g}'))}</text>"
        for mark in up.marks()
    )
    bottom = "".join(
        f'<text x="{across.at(mark):.2f}%" y="14" text-anchor="middle">{short(mark)}</text>'
        for mark in across.marks()
    )
    return (
        f'<figure class="chart" role="img" aria-label="{escape(title)}"><figcaption>'
        f'{escape(title)} <span class="quiet">({escape(units[1])}, by {escape(units[0])})</span>'
        f'</figcaption><div class="plot"><svg height="{_HEIGHT}">{left}</svg>'
        f'<svg height="{_HEIGHT}">{grid}{body}</svg><span></span><svg height="20">{bottom}</svg>'
        "</div></figure>"
    )


def _curve(places: Sequence[tuple[float, float]], kind: str, tips: Sequence[str]) -> str:
    dots = (dot(place, kind, tip) for place, tip in zip(places, tips, strict=True))
    return path(places, f"curve {kind}") + "".join(dots)


def path(places: Sequence[tuple[float, float]], kind: str) -> str:
    """A line through places in percent."""
    line = " ".join(f"{x:.2f},{y:.2f}" for x, y in places)
    return (
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" width="100%" height="100%">'
        f'<polyline class="{kind}" points="{line}"/></svg>'
    )


def dot(place: tuple[float, float], kind: str, tip: str) -> str:
    """A dot at a place in percent."""
    return (
        f'<circle class="{kind}" cx="{place[0]:.2f}%" cy="{place[1]:.2f}%" r="4">'
        f"<title>{escape(tip)}</title></circle>"
    )


def _horizontal(place: float) -> str:
    return f'<line class="grid" x1="0" x2="100%" y1="{place:.2f}%" y2="{place:.2f}%"/>'
