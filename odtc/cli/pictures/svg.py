"""Elements of the time line's SVG."""

import math
from html import escape


def step_of(length: float, marks: int) -> float:
    """The distance of marks on an axis: 1, 2 or 5 times a power of ten."""
    least = length / marks
    power = 10.0 ** math.floor(math.log10(least))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= least)


def line_between(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line of a kind that the style knows."""
    ends = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line class="{kind}" {ends}/>'


def text_at(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """A text of a kind that the style knows, or a plain one."""
    place = f'x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'
