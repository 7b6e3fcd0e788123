"""The frontier of a step: what each budget costs in time, as SVG or as a page of HTML.

Along x are bytes, of the arena and of what only micro-batches need; along y is the time of the
calls, by a model of the target, over that of the step as it is. Each way to run a step, such as
four micro-batches with direct convolutions, has a mark of its own.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from odtc.charts.chart import Axis, Chart
from odtc.charts.file import write_chart
from odtc.charts.palette import mark_of
from odtc.charts.rows import Dot, Line, Points
from odtc.charts.scales import Linear, unit_of
from odtc.cli.console import readable_bytes
from odtc.driver.frontier import Frontier, Point

# Micro-batches, whether what is saved is float16, and whether convolutions are direct.
_Kind = tuple[int, bool, bool]
# Up to how many times what the slowest point takes more, other curves are drawn.
_TALLEST = 2.5


def draw(frontier: Frontier, title: str, path: str | os.PathLike[str]) -> None:
    """Writes the picture, whole or not at all.

    Args:
        frontier: what to draw.
        title: of the picture.
        path: where it goes; `.svg` or `.html`.

    Raises:
        OutputError: the file cannot be written.
    """
    write_chart(chart_of(frontier, title), path)


def chart_of(frontier: Frontier, title: str) -> Chart:
    """The chart of a frontier."""
    unit, name = unit_of(max(1, frontier.points[0].budget_bytes))
    slowest = _slowest(frontier)
    kinds = sorted({_kind(point) for point in frontier.points})
    known = {
        each: within
        for each, points in frontier.strategies.items()
        if (within := [point for point in points if point.time <= slowest])
    }
    slower = [each for each, points in frontier.strategies.items() if points and each not in known]
    found = {_label(*kind): [p for p in frontier.points if _kind(p) == kind] for kind in kinds}
    points = [
        Points(label, mark_of(number), _dots(group, unit))
        for number, (label, group) in enumerate([*found.items(), *known.items()])
    ]
    bound = frontier.lower_bound_bytes
    least = [
        (each.budget_bytes / unit, each.time)
        for each in frontier.least
        if each.budget_bytes >= bound and each.time <= slowest
    ]
    lines = [Line("no plan is below", "least", least)] if least else []
    lines.append(
        Line(
            "no budget is below this",
            "bound",
            [(bound / unit, 1), (bound / unit, slowest)],
            f"{bound:,} bytes",
        )
    )
    return Chart(
        title,
        "; ".join([_summary(frontier), *_beyond(slower)]),
        Axis(Linear(max(1, frontier.points[0].budget_bytes) / unit * 1.04), f"budget ({name})"),
        Axis(Linear(slowest, 1), "time, over that of the step as it is (model)"),
        # What was found is drawn above the ways that are known.
        [*lines, *points[len(found) :], *points[: len(found)]],
    )


def _slowest(frontier: Frontier) -> float:
    """The end of the axis: known ways may be so slow that nothing else could be seen."""
    more = max(point.time for point in frontier.points) - 1
    known = (point.time for points in frontier.strategies.values() for point in points)
    return 1 + max(0.01, min(max(known, default=1) - 1, _TALLEST * more), more) * 1.06


def _summary(found: Frontier) -> str:
    last = found.points[-1]
    most, least, beside = map(
        readable_bytes,
        (
            found.points[0].budget_bytes,
            last.budget_bytes,
            found.parameter_bytes + found.optimizer_bytes,
        ),
    )
    return (
        f"{most} as it is, {least} at least, in {last.time:.2f} times the time; beside these "
        f"{beside} of parameters and optimizer state"
    )


def _beyond(slower: Sequence[str]) -> Iterator[str]:
    """The known ways of which no point is within the picture."""
    if slower:
        yield f"slower than the picture shows: {'; '.join(slower)}"


def _dots(points: Iterable[Point], unit: int) -> Sequence[Dot]:
    return [Dot((point.budget_bytes / unit, point.time), _tip(point)) for point in points]


def _kind(point: Point) -> _Kind:
    return point.micro_batches, point.half, point.direct


def _label(micro_batches: int, half: bool, direct: bool) -> str:
    parts = "one batch" if micro_batches == 1 else f"{micro_batches} micro-batches"
    return ", ".join([parts, *["float16"] * half, *["direct"] * direct])


def _tip(point: Point) -> str:
    parts = f", {point.micro_batches} micro-batches" if point.micro_batches > 1 else ""
    half = ", saved as float16" if point.half else ""
    direct = ", direct convolutions" if point.direct else ""
    stored = f", {point.stored_bytes:,} bytes in a file" if point.stored_bytes else ""
    return (
        f"{point.budget_bytes:,} bytes, {point.time:.3f} of the time: "
        f"{point.repeated:,} of {point.calls:,} calls again{parts}{half}{direct}{stored}"
    )
