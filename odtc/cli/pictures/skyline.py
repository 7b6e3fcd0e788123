"""The skyline of a step: each tensor of the arena as a rectangle, as SVG or as a page of HTML.

Along x are the calls of the step, in their order; along y are the bytes of the arena. A tensor
covers the calls that it is alive in, and the bytes that it has.
"""

import os

from odtc.charts.chart import Axis, Chart
from odtc.charts.file import write_chart
from odtc.charts.palette import OTHER, Mark, colour_class, mark_of
from odtc.charts.rows import Area, Areas, Dot, Line, Points, Row
from odtc.charts.scales import Linear, unit_of
from odtc.cli.console import readable_bytes
from odtc.core.artifact.memory_plan import Kind, MemoryPlan, PlannedTensor

COLOURS = {
    Kind.SAVED: colour_class(0),
    Kind.ACTIVATION: colour_class(5),
    Kind.GRADIENT: colour_class(1),
    Kind.PARAMETER_GRADIENT: colour_class(4),
    Kind.WORKSPACE: colour_class(2),
    Kind.OTHER: OTHER,
}


def draw(plan: MemoryPlan, title: str, path: str | os.PathLike[str]) -> None:
    """Writes the picture of a plan, whole or not at all.

    Args:
        plan: what to draw.
        title: of the picture.
        path: where it goes; its suffix is one of `SUFFIXES`.

    Raises:
        OutputError: the file cannot be written.
    """
    write_chart(chart_of(plan, title), path)


def chart_of(plan: MemoryPlan, title: str) -> Chart:
    """The chart of a plan."""
    unit, name = unit_of(max(1, plan.arena_bytes))
    most = max(1, plan.arena_bytes) / unit * 1.04
    tensors: list[Row] = [
        Areas(kind.value, colour, [_area(each, plan, unit) for each in plan.of_kind(kind)])
        for kind, colour in COLOURS.items()
        if plan.of_kind(kind)
    ]
    return Chart(
        title,
        _summary(plan),
        Axis(Linear(max(1, len(plan.calls))), "calls of kernels, in the order of the step"),
        Axis(Linear(most), f"place in the arena ({name})"),
        [*tensors, *_lines(plan, unit, most)],
    )


def _lines(plan: MemoryPlan, unit: int, most: float) -> list[Row]:
    """Where the backward pass begins, the bound, the bytes alive in each call, and their peak."""
    bound, calls = plan.lower_bound_bytes / unit, max(1, len(plan.calls))
    found: list[Row] = []
    if 0 < plan.backward < calls:
        begin = [(plan.backward, 0.0), (plan.backward, most)]
        found.append(Line("backward and update begin", "turn", begin, f"at call {plan.backward:,}"))
    said = f"{plan.lower_bound_bytes:,} bytes"
    found.append(Line("lower bound", "bound", [(0, bound), (calls, bound)], said))
    if plan.live_bytes:
        alive = [(n + i, count / unit) for n, count in enumerate(plan.live_bytes) for i in (0, 1)]
        peak = Dot(
            (plan.peak_call + 0.5, plan.peak_bytes / unit),
            f"{plan.peak_bytes:,} bytes in call {plan.peak_call:,}",
        )
        found.append(Line("bytes alive", "live", alive))
        found.append(Points("their peak", Mark("peak", mark_of(0).shape), [peak], joined=False))
    return found


def _summary(plan: MemoryPlan) -> str:
    gap = plan.arena_bytes - plan.lower_bound_bytes
    bound = "as low as can be" if not gap else f"{readable_bytes(gap)} above its lower bound"
    return (
        f"arena {readable_bytes(plan.arena_bytes)}, {bound}; most bytes alive at one time "
        f"{readable_bytes(plan.peak_bytes)}, in call {plan.peak_call:,}; "
        f"{len(plan.tensors):,} tensors, {len(plan.calls):,} calls"
    )


def _area(tensor: PlannedTensor, plan: MemoryPlan, unit: int) -> Area:
    low = (tensor.first, tensor.offset / unit)
    high = (tensor.last + 1, (tensor.offset + tensor.nbytes) / unit)
    return Area(low, high, _tip(tensor, plan))


def _tip(tensor: PlannedTensor, plan: MemoryPlan) -> str:
    calls = plan.calls
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
