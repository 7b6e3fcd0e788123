"""The skyline of a step: each tensor of the arena as a rectangle, as SVG or as a page of HTML.

Along x are the calls of the step, in their order; along y are the bytes of the arena. A tensor
covers the calls that it is alive in, and the bytes that it has.
"""

import os
from collections.abc import Iterator
from html import escape

from odtc.cli.console import readable_bytes
from odtc.cli.pictures.legend import Entry, legend, line_of, patch_of
from odtc.cli.pictures.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    horizontal_label,
    line_between,
    opening,
    step_of,
    text_at,
    unit_of,
    vertical_label,
    write_picture,
)
from odtc.core.artifact.memory_plan import Kind, MemoryPlan, PlannedTensor

_COLOURS = {
    Kind.SAVED: "#2f6db3",
    Kind.ACTIVATION: "#9ccbee",
    Kind.GRADIENT: "#e8833a",
    Kind.PARAMETER_GRADIENT: "#f6c445",
    Kind.WORKSPACE: "#4ea65a",
    Kind.OTHER: "#a3a3a8",
}
# An end of a line, and what stands for it in an attribute.
_LINE, _LINE_IN_XML = "\n", "&#10;"
# About how many marks an axis has.
_MARKS_X, _MARKS_Y = 12, 8


def draw(plan: MemoryPlan, title: str, path: str | os.PathLike[str]) -> None:
    """Writes the picture of a plan, whole or not at all.

    Args:
        plan: what to draw.
        title: of the picture.
        path: where it goes; its suffix is one of `SUFFIXES`.

    Raises:
        OutputError: the file cannot be written.
    """
    write_picture(lambda titles: _Picture(plan, title, with_titles=titles).lines(), title, path)


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
        yield from opening(self._title, self._summary())
        yield from self._legend()
        yield from self._passes()
        yield from self._axes()
        yield from map(self._rectangle, self._plan.tensors)
        if 0 < self._plan.backward < self._calls:
            x = self._x(self._plan.backward)
            yield line_between(x, TOP - 18, x, HEIGHT - BOTTOM, "pass")
        yield from self._lines_of_bytes()
        yield "</svg>"

    def _x(self, call: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * call / self._calls

    def _y(self, count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / self._top

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
        """The colours of tensors, and the lines."""
        tensors = [
            Entry(kind.value, patch_of(colour))
            for kind, colour in _COLOURS.items()
            if self._plan.of_kind(kind)
        ]
        lines = [Entry("bytes alive", line_of("live")), Entry("lower bound", line_of("bound"))]
        yield from legend([*tensors, *lines])

    def _passes(self) -> Iterator[str]:
        """Where the backward pass begins."""
        begin, top, bottom = self._plan.backward, TOP - 18, HEIGHT - BOTTOM
        width = self._x(self._calls) - self._x(begin)
        yield (
            f'<rect x="{self._x(begin):.2f}" y="{top}" width="{width:.2f}" '
            f'height="{bottom - top}" fill="#faf5ef"/>'
        )
        if begin:
            yield text_at(self._x(0) + 6, TOP - 4, "forward →", "quiet")
        if begin < self._calls:
            yield text_at(self._x(begin) + 6, TOP - 4, "backward and update →", "quiet")

    def _axes(self) -> Iterator[str]:
        left, right, bottom = self._x(0), self._x(self._calls), self._y(0)
        unit, name = unit_of(self._plan.arena_bytes)
        step = step_of(self._top / unit, _MARKS_Y)
        for number in range(int(self._top / unit / step) + 1):
            y = self._y(number * step * unit)
            yield line_between(left, y, right, y, "axis" if not number else "grid")
            yield text_at(left - 8, y + 4, f"{number * step:,g}", "quiet", "end")
        step = max(1, step_of(self._calls, _MARKS_X))
        for number in range(int((self._calls - 1) / step) + 1):
            x = self._x(number * step + 0.5)
            yield line_between(x, bottom, x, bottom + 5, "axis")
            yield text_at(x, bottom + 20, f"{number * step:,g}", "quiet", "middle")
        yield horizontal_label("calls of kernels, in the order of the step")
        yield vertical_label(f"place in the arena ({name})")

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
        yield line_between(self._x(0), y, self._x(self._calls), y, "bound")
        if points:
            for name in ("halo", "live"):
                yield f'<polyline class="{name}" points="{" ".join(points)}"/>'
            x, y = self._x(plan.peak_call + 0.5), self._y(plan.peak_bytes)
            yield f'<circle class="peak" cx="{x:.2f}" cy="{y:.2f}" r="4.5"/>'
