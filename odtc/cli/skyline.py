"""The skyline of a step: each tensor of the arena as a rectangle, as SVG or as a page of HTML.

Along x are the calls of the step, in their order; along y are the bytes of the arena. A tensor
covers the calls that it is alive in, and the bytes that it has. Nothing is fetched from anywhere.
"""

import math
import os
from collections.abc import Iterator
from html import escape
from pathlib import Path

from odtc.cli.console import readable_bytes
from odtc.core.files import atomic_write
from odtc.core.memory_plan import Kind, MemoryPlan, PlannedTensor

SUFFIXES = (".svg", ".html")

# Width and height of the picture and of its margins: left, right, top, bottom.
_WIDTH, _HEIGHT = 1280, 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 88, 32, 128, 64
_COLOURS = {
    Kind.SAVED: "#2f6db3",
    Kind.ACTIVATION: "#9ccbee",
    Kind.GRADIENT: "#e8833a",
    Kind.PARAMETER_GRADIENT: "#f6c445",
    Kind.WORKSPACE: "#4ea65a",
    Kind.OTHER: "#a3a3a8",
}
_UNITS = ("B", "KiB", "MiB", "GiB")
# An end of a line, and what stands for it in an attribute.
_LINE, _LINE_IN_XML = "\n", "&#10;"
# About how many marks an axis has.
_MARKS_X, _MARKS_Y = 12, 8

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


def draw(plan: MemoryPlan, title: str, path: str | os.PathLike[str]) -> None:
    """Writes the picture of a plan, whole or not at all.

    Args:
        plan: what to draw.
        title: of the picture.
        path: where it goes; its suffix is one of `SUFFIXES`.

    Raises:
        OutputError: the file cannot be written.
    """
    is_page = Path(path).suffix == ".html"
    text = "\n".join(_Picture(plan, title, with_titles=not is_page).lines())
    if is_page:
        text = _PAGE.format(title=escape(title), picture=text)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


class _Picture:
    """A plan on a plane.

    Args:
        plan: what to draw.
        title: of the picture.
        with_titles: whether a viewer of the SVG shows a tensor's text; a page does it by itself.
    """

    def __init__(self, plan: MemoryPlan, title: str, *, with_titles: bool) -> None:
        self._plan = plan
        self._title = title
        self._with_titles = with_titles
        self._calls = max(1, len(plan.calls))
        self._top = max(1, plan.arena_bytes) * 1.04

    def lines(self) -> Iterator[str]:
        """The SVG, line by line."""
        size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
        yield f"<style>{_STYLE}</style>"
        yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>'
        yield _text(_LEFT, 34, self._title, "title")
        yield _text(_LEFT, 57, self._summary(), "quiet")
        yield from self._legend()
        yield from self._passes()
        yield from self._axes()
        yield from map(self._rectangle, self._plan.tensors)
        if 0 < self._plan.backward < self._calls:
            x = self._x(self._plan.backward)
            yield _line(x, _TOP - 18, x, _HEIGHT - _BOTTOM, "pass")
        yield from self._lines_of_bytes()
        yield "</svg>"

    def _x(self, call: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * call / self._calls

    def _y(self, count: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * count / self._top

    def _summary(self) -> str:
        plan = self._plan
        gap = plan.arena_bytes - plan.lower_bound_bytes
        bound = "as low as can be" if not gap else f"{readable_bytes(gap)} above its lower bound"
        return (
            f"arena {readable_bytes(plan.arena_bytes)}, {bound}; most bytes alive at one time "
            f"{readable_bytes(plan.peak_bytes)}, in call {plan.peak_call:,}; "
            f"{len(plan.tensors):,} tensors, {len(plan.calls):,} calls"
        )

    def _legend(self) -> Iterator[str]:
        """What the colours and the lines are."""
        x, y = float(_LEFT), 84
        for kind, colour in _COLOURS.items():
            if self._plan.of_kind(kind):
                yield f'<rect x="{x:g}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
                yield _text(x + 18, y, kind.value)
                x += 40 + 7.2 * len(kind.value)
        for name, label in (("live", "bytes alive"), ("bound", "lower bound")):
            yield _line(x, y - 4, x + 22, y - 4, name)
            yield _text(x + 28, y, label)
            x += 50 + 7.2 * len(label)

    def _passes(self) -> Iterator[str]:
        """Where the backward pass begins."""
        begin, top, bottom = self._plan.backward, _TOP - 18, _HEIGHT - _BOTTOM
        width = self._x(self._calls) - self._x(begin)
        yield (
            f'<rect x="{self._x(begin):.2f}" y="{top}" width="{width:.2f}" '
            f'height="{bottom - top}" fill="#faf5ef"/>'
        )
        if begin:
            yield _text(self._x(0) + 6, _TOP - 4, "forward →", "quiet")
        if begin < self._calls:
            yield _text(self._x(begin) + 6, _TOP - 4, "backward and update →", "quiet")

    def _axes(self) -> Iterator[str]:
        left, right, bottom = self._x(0), self._x(self._calls), self._y(0)
        power = min(3, int(math.log(max(1, self._plan.arena_bytes), 1024)))
        unit = 1024**power
        step = _step(self._top / unit, _MARKS_Y)
        for number in range(int(self._top / unit / step) + 1):
            y = self._y(number * step * unit)
            yield _line(left, y, right, y, "axis" if not number else "grid")
            yield _text(left - 8, y + 4, f"{number * step:,g}", "quiet", "end")
        step = max(1, _step(self._calls, _MARKS_X))
        for number in range(int((self._calls - 1) / step) + 1):
            x = self._x(number * step + 0.5)
            yield _line(x, bottom, x, bottom + 5, "axis")
            yield _text(x, bottom + 20, f"{number * step:,g}", "quiet", "middle")
        middle = (_TOP + bottom) / 2
        yield _text(
            (left + right) / 2,
            _HEIGHT - 16,
            "calls of kernels, in the order of the step",
            anchor="middle",
        )
        turned = f'transform="rotate(-90 24 {middle:g})"'
        label = f"place in the arena ({_UNITS[power]})"
        yield f'<text x="24" y="{middle:g}" text-anchor="middle" {turned}>{label}</text>'

    def _rectangle(self, tensor: PlannedTensor) -> str:
        x, top = self._x(tensor.first), self._y(tensor.offset + tensor.nbytes)
        width, height = self._x(tensor.last + 1) - x, self._y(tensor.offset) - top
        # Edges are no wider than a part of what they are around.
        edge = min(1.0, width / 6, height / 6)
        place = f'x="{x:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}"'
        colour = f'fill="{_COLOURS[tensor.kind]}" stroke-width="{edge:.2f}"'
        shape = f'<rect class="tensor" {place} {colour}'
        tip = escape(self._tip(tensor))
        if self._with_titles:
            return f"{shape}><title>{tip}</title></rect>"
        return f'{shape} data-tip="{tip.replace(_LINE, _LINE_IN_XML)}"/>'

    def _tip(self, tensor: PlannedTensor) -> str:
        calls = self._plan.calls
        shape = ", ".join(map(str, tensor.spec.shape))
        return "\n".join(
            (
                tensor.tensor,
                f"from {tensor.origin}",
                f"{tensor.kind}: {tensor.spec.dtype}[{shape}], {tensor.nbytes:,} bytes "
                f"at {tensor.offset:,}",
                f"written by call {tensor.first:,} ({calls[tensor.first]}), "
                f"last needed by call {tensor.last:,} ({calls[tensor.last]})",
            )
        )

    def _lines_of_bytes(self) -> Iterator[str]:
        """The bytes that are alive during each call, their peak, and the bound."""
        plan = self._plan
        points = [
            f"{self._x(call + end):.2f},{self._y(count):.2f}"
            for call, count in enumerate(plan.live_bytes)
            for end in (0, 1)
        ]
        y = self._y(plan.lower_bound_bytes)
        yield _line(self._x(0), y, self._x(self._calls), y, "bound")
        if points:
            for name in ("halo", "live"):
                yield f'<polyline class="{name}" points="{" ".join(points)}"/>'
            x, y = self._x(plan.peak_call + 0.5), self._y(plan.peak_bytes)
            yield f'<circle class="peak" cx="{x:.2f}" cy="{y:.2f}" r="4.5"/>'


def _step(length: float, marks: int) -> float:
    """The distance of marks on an axis: 1, 2 or 5 times a power of ten."""
    least = length / marks
    power = 10.0 ** math.floor(math.log10(least))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= least)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    ends = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line class="{kind}" {ends}/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(text)}</text>'
