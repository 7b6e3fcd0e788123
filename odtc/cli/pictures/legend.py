"""The legend of a picture: entries in rows, each with the mark that it has in the picture."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from odtc.cli.pictures.svg import LEFT, RIGHT, WIDTH, line_between, text_at

# The first row, and the distance to the next: three of them end above the plot.
_TOP, _ROW = 78, 18
_MARK, _GAP, _LETTER = 22.0, 18.0, 7.2

# Draws a mark around a point.
Drawn = Callable[[float, float], str]


@dataclass(frozen=True)
class Entry:
    """An entry of a legend: a label, and how its mark is drawn around a point."""

    label: str
    draw: Drawn


def legend(entries: Iterable[Entry]) -> Iterator[str]:
    """The SVG of a legend; an entry that would not end within the picture begins a row."""
    x, y = float(LEFT), float(_TOP)
    for each in entries:
        width = _MARK + 6 + _LETTER * len(each.label)
        if x > LEFT and x + width > WIDTH - RIGHT:
            x, y = float(LEFT), y + _ROW
        yield each.draw(x + _MARK / 2, y - 4)
        yield text_at(x + _MARK + 6, y, each.label)
        x += width + _GAP


def line_of(kind: str) -> Drawn:
    """A line of a kind that the style knows."""
    return lambda x, y: line_between(x - _MARK / 2, y, x + _MARK / 2, y, kind)


def curve_of(colour: str) -> Drawn:
    """A line of a colour."""
    half = _MARK / 2
    return lambda x, y: (
        f'<polyline class="way" stroke="{colour}" points="{x - half:.2f},{y:.2f} '
        f'{x + half:.2f},{y:.2f}"/>'
    )


def patch_of(colour: str) -> Drawn:
    """A square of a colour, as areas have it."""
    return lambda x, y: (
        f'<rect x="{x - 6:.2f}" y="{y - 6:.2f}" width="12" height="12" fill="{colour}"/>'
    )
