"""What was found, as a table, as a chart, and as JSON with raw samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.budget.ways import Found, Way
from benchmarks.output import numbers_table, panels, save_figure
from benchmarks.step_time.compare import Timing, ratio
from odtc.comparison.measures.measure import spread


def parity_table(found: Sequence[Found]) -> Table:
    """The first losses of every way, before anything is timed."""
    table = numbers_table("network", "way", "losses of the first steps")
    for item in found:
        for timing in item.comparison.timings:
            losses = ", ".join(f"{loss:.5f}" for loss in timing.losses)
            table.add_row(item.comparison.model, timing.engine, losses)
    return table


def way_table(found: Sequence[Found]) -> Table:
    """Bytes that are planned and measured, in MB, and how many times the time of the step as it is.

    `total` is arena, accumulators, parameters and state; `file` what waits in one; `grown` what a
    process grew by since its imports; `beyond` what of that is neither in the total nor fed.
    """
    numbers = ("budget", "parts", "arena", "total", "file", "grown", "beyond", "time")
    heads = ("network", "way", *numbers)
    table = numbers_table(*heads)
    for item in found:
        timings = _timings(item)
        for way in item.ways:
            plan, timing = way.plan, timings.get(way.name)
            time = ratio(timing, item.comparison.ours).text() if timing else ""
            table.add_row(
                f"{item.comparison.model}, {item.comparison.batch}",
                way.name,
                _megabytes(way.budget),
                str(way.micro_batches) if plan else "",
                *map(_megabytes, (plan and plan.arena, plan and plan.total)),
                _megabytes(way.stored or None),
                *map(_megabytes, (way.net, way.beyond)),
                time,
            )
    return table


def failures(found: Sequence[Found]) -> list[str]:
    """One line for each way that has no result."""
    return [
        f"{item.comparison.model}, {way.name}: {way.failure}"
        for item in found
        for way in item.ways
        if way.failure
    ]


def draw(found: Sequence[Found], title: str, path: Path) -> None:
    """Writes a panel for each network as SVG: memory of a process along x, time along y."""
    figure, places = panels(len(found), 1, (7, 0.8 + 3.2 * len(found)))
    for panel, item in zip(places, found, strict=True):
        timings = _timings(item)
        for way in item.ways:
            timing = timings.get(way.name)
            if timing is None or way.net is None:
                continue
            time = spread([1e3 * seconds for seconds in timing.seconds])
            whiskers = [[time.median - time.lower], [time.upper - time.median]]
            colour = "C0" if way.plan else "0.5"
            panel.errorbar(way.net / 1e6, time.median, whiskers, fmt="o", color=colour)
            panel.annotate(
                _label(way),
                (way.net / 1e6, time.median),
                (4, 4),
                textcoords="offset points",
                fontsize=7,
            )
        panel.set_title(f"{item.comparison.model}, batch {item.comparison.batch}", loc="left")
        panel.set_ylabel("ms per step")
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.margins(x=0.2)
    places[-1].set_xlabel("MB that a process grew by: peak of three steps")
    save_figure(figure, title, path)


def _timings(item: Found) -> Mapping[str, Timing]:
    """Of the ways that were timed, by name."""
    return {timing.engine: timing for timing in item.comparison.timings if timing.seconds}


def _label(way: Way) -> str:
    parts = f", {way.micro_batches} micro-batches" if way.micro_batches > 1 else ""
    return f"{way.name}{parts}"


def _megabytes(count: float | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f}"
