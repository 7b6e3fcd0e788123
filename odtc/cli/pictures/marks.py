"""Marks of points: a colour and a shape, which differ for as many kinds as a plot has."""

from dataclasses import dataclass

COLOURS = ("#2f6db3", "#e8833a", "#4ea65a", "#8e5bb5", "#c9a227", "#5b9aa0")
# A shape of area alike, by its corners from the point; None is a circle.
_SHAPES: tuple[tuple[tuple[float, float], ...] | None, ...] = (
    None,
    ((-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)),
    ((0, -5), (5, 4), (-5, 4)),
    ((0, -5.2), (5.2, 0), (0, 5.2), (-5.2, 0)),
    ((0, 5), (5, -4), (-5, -4)),
)
# The class that all marks have, whatever their shape.
POINT = "point"


@dataclass(frozen=True)
class Mark:
    """How points of a kind are drawn."""

    colour: str
    shape: int = 0

    def at(self, x: float, y: float, attributes: str = "", inside: str = "") -> str:
        """The SVG of a point."""
        corners = _SHAPES[self.shape]
        given = f'class="{POINT}" fill="{self.colour}"{attributes}'
        if corners is None:
            element, place = "circle", f'cx="{x:.2f}" cy="{y:.2f}" r="4"'
        else:
            points = " ".join(f"{x + dx:.2f},{y + dy:.2f}" for dx, dy in corners)
            element, place = "polygon", f'points="{points}"'
        return f"<{element} {given} {place}>{inside}</{element}>"


def mark_of(number: int) -> Mark:
    """The mark of the kind of a number: colours first, then shapes."""
    shape, colour = divmod(number, len(COLOURS))
    return Mark(COLOURS[colour], shape % len(_SHAPES))
