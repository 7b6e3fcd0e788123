"""Colours and shapes of what charts show.

The colours are those of Okabe and Ito, "Color Universal Design", 2008, which those tell apart who
see two of the three primary colours; on a dark page they are lighter. A shape goes with each, so
that nothing is told by a colour alone.
"""

from dataclasses import dataclass
from math import lcm

# The yellow of the eight is too light for a white page, and black is the colour of text.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DARK = ("#4a9fdd", "#f07c35", "#1fbf8f", "#e39cc4", "#f2b632", "#9ad6fa")
GREY = ("#8a8f96", "#9aa1aa")
# Shapes of about the same area, around a point.
SHAPES = (
    "M-4.2,0a4.2,4.2 0 1,0 8.4,0a4.2,4.2 0 1,0 -8.4,0Z",
    "M-3.7,-3.7H3.7V3.7H-3.7Z",
    "M0,-5.2L5,3.8H-5Z",
    "M0,-5.3L5.3,0L0,5.3L-5.3,0Z",
    "M0,5.2L5,-3.8H-5Z",
)
# So many kinds of points have marks that differ.
DISTINCT = lcm(len(LIGHT), len(SHAPES))
OTHER = "s-other"
# Kinds of dashes, the first none: `.dash1` and so on of a chart's style.
DASHES = 3


@dataclass(frozen=True)
class Mark:
    """How points of a kind are drawn.

    Attributes:
        colour: the class of its colour.
        shape: the SVG path of its outline, around 0, 0.
    """

    colour: str
    shape: str

    def at_origin(self, tip: str = "") -> str:
        """The SVG of a point at 0, 0; `tip` is SVG inside of it."""
        return f'<path class="point {self.colour}" d="{self.shape}">{tip}</path>'


def mark_of(number: int) -> Mark:
    """The mark of the kind of a number; those of neighbours differ in colour and in shape."""
    return Mark(colour_class(number), SHAPES[number % len(SHAPES)])


def colour_class(number: int) -> str:
    """The class of the colour of a number."""
    return f"s{number % len(LIGHT)}"


def line_class(number: int) -> str:
    """The classes of a line of a number; those of neighbours differ in colour and in dashes."""
    dash = (number + number // len(LIGHT)) % DASHES
    return f"curve {colour_class(number)} dash{dash}"


def rules() -> str:
    """The classes of all colours as CSS, light and dark."""
    light, dark = _rules([*LIGHT, GREY[0]]), _rules([*DARK, GREY[1]])
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def _rules(colours: list[str]) -> str:
    names = [*map(colour_class, range(len(LIGHT))), OTHER]
    return "\n".join(
        f".{name} {{ fill: {colour}; stroke: {colour}; background: {colour}; }}"
        for name, colour in zip(names, colours, strict=True)
    )
