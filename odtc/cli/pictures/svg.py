"""The canvas and style of the command line's pictures, and the file they are written to.

A picture is SVG, or a page of HTML that holds it and shows what the pointer is on. Nothing is
fetched from anywhere.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from html import escape
from pathlib import Path

from odtc.core.disk.files import atomic_write

SUFFIXES = (".svg", ".html")

# Width and height of a picture and of its margins: left, right, top, bottom.
WIDTH, HEIGHT = 1280, 720
LEFT, RIGHT, TOP, BOTTOM = 88, 32, 128, 64
UNITS = ("B", "KiB", "MiB", "GiB")

_STYLE = """
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f; }
.title { font-size: 19px; font-weight: 600; }
.quiet { fill: #6a737d; }
.grid { stroke: #e3e6ea; stroke-width: 1; }
.axis { stroke: #8c959f; stroke-width: 1; }
.pass { stroke: #24292f; stroke-width: 1.2; stroke-dasharray: 2 4; }
.tensor { stroke: #ffffff; stroke-opacity: 0.7; }
.live { fill: none; stroke: #14171a; stroke-width: 1.6; stroke-linejoin: round; }
.halo { fill: none; stroke: #ffffff; stroke-opacity: 0.75; stroke-width: 4; }
.bound { stroke: #c2185b; stroke-width: 1.6; stroke-dasharray: 8 5; }
.way { fill: none; stroke-width: 2; stroke-linejoin: round; }
.peak { fill: #14171a; stroke: #ffffff; stroke-width: 1.5; }
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 0; background: #ffffff; }}
svg {{ display: block; width: 100%; height: auto; max-height: 100vh; }}
.tensor:hover {{ stroke: #14171a; stroke-opacity: 1; stroke-width: 2; }}
#tip {{ position: fixed; display: none; max-width: 46em; padding: 0.6em 0.8em;
  white-space: pre-line; overflow-wrap: anywhere; color: #ffffff;
  font: 13px/1.45 system-ui, "Segoe UI", Helvetica, Arial, sans-serif;
  background: #24292fee; border-radius: 6px; pointer-events: none; }}
</style>
</head>
<body>
{picture}
<div id="tip"></div>
<script>
const tip = document.getElementById("tip");
document.querySelector("svg").addEventListener("mousemove", (event) => {{
  const text = event.target.dataset.tip;
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(0, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  const below = event.clientY + 14;
  const above = event.clientY - 14 - box.height;
  tip.style.top = (below + box.height > innerHeight ? Math.max(0, above) : below) + "px";
}});
</script>
</body>
</html>
"""


def write_picture(
    lines: Callable[[bool], Iterable[str]], title: str, path: str | os.PathLike[str]
) -> None:
    """Writes a picture, whole or not at all.

    Args:
        lines: of the SVG, given whether its viewer shows titles; a page shows texts by itself.
        title: of the page.
        path: where it goes; its suffix is one of `SUFFIXES`.

    Raises:
        OutputError: the file cannot be written.
    """
    is_page = Path(path).suffix == ".html"
    text = "\n".join(lines(not is_page))
    if is_page:
        text = _PAGE.format(title=escape(title), picture=text)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def opening(title: str, summary: str) -> Iterator[str]:
    """The first lines of a picture: its size, style and head."""
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    yield f"<style>{_STYLE}</style>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    yield text_at(LEFT, 34, title, "title")
    yield text_at(LEFT, 57, summary, "quiet")


def unit_of(count: float) -> tuple[int, str]:
    """The unit that a number of bytes is best told in: its bytes and its name."""
    power = min(3, int(math.log(max(1, count), 1024)))
    return 1024**power, UNITS[power]


def vertical_label(label: str) -> str:
    """The label of the axis at the left."""
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 24 {middle:g})"'
    return f'<text x="24" y="{middle:g}" text-anchor="middle" {turned}>{label}</text>'


def horizontal_label(label: str) -> str:
    """The label of the axis at the bottom."""
    return text_at((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, label, anchor="middle")


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
