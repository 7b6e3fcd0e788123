"""Results as a table, as a chart, and as JSON with raw samples."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.budget.ways import BudgetWay, NetworkWays
from benchmarks.memory.rows import ORT, TORCH
from benchmarks.output import numbers_table, panels, save_figure
from benchmarks.step_time.compare import Timing, ratio, ratios
from odtc.comparison.measures.measure import spread


def parity_table(found: Sequence[NetworkWays]) -> Table:
    """The first losses of every way, before anything is timed."""
    table = numbers_table("network", "way", "losses of the first steps")
    for item in found:
        for timing in item.comparison.timings:
            losses = ", ".join(f"{loss:.5f}" for loss in timing.losses)
            table.add_row(item.comparison.model, timing.engine, losses)
    return table


def way_table(found: Sequence[NetworkWays]) -> Table:
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


def figures_of(found: Sequence[NetworkWays]) -> list[dict[str, Any]]:
    """For docs/budgets.md: each way of odtc's, in MB, beside the peers that were measured."""
    return [_figures(item, way) for item in found for way in item.ways if way.plan and way.net]


def _figures(item: NetworkWays, way: BudgetWay) -> dict[str, Any]:
    plan, timings = way.plan, _timings(item)
    assert plan
    assert way.net
    nets = {each.name: each.net for each in item.ways}
    times = {name: ratios(each, item.comparison.ours) for name, each in timings.items()}
    return {
        "network": item.comparison.model,
        "budget": way.name.partition(", ")[2] or "none",
        # Plain SGD has no state: what the plan has are accumulators, which the budget counts.
        "budget_mb": None if way.budget is None else (way.budget + plan.parameters) / 1e6,
        "micro_batches": way.micro_batches,
        "arena_mb": plan.arena / 1e6,
        "total_mb": plan.total / 1e6,
        "process_mb": way.net / 1e6,
        "of_pytorch": [way.net / size] if (size := nets.get(TORCH)) else [],
        "time": times.get(way.name),
        "peer_mb": None if (size := nets.get(ORT)) is None else size / 1e6,
        "peer_time": times.get(ORT),
    }


def peer_figures(found: Sequence[NetworkWays]) -> dict[str, Any]:
    """Of PyTorch: MB of a process, and its time over that of odtc's step as it is."""
    return {
        item.comparison.model: {
            "mb": way.net / 1e6,
            "time": ratios(_timings(item)[TORCH], item.comparison.ours),
        }
        for item in found
        for way in item.ways
        if way.name == TORCH and way.net and TORCH in _timings(item)
    }


def failures(found: Sequence[NetworkWays]) -> list[str]:
    """One line for each way that has no result."""
    return [
        f"{item.comparison.model}, {way.name}: {way.failure}"
        for item in found
        for way in item.ways
        if way.failure
    ]


def draw(found: Sequence[NetworkWays], title: str, path: Path) -> None:
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


def _timings(item: NetworkWays) -> Mapping[str, Timing]:
    """Of the ways that were timed, by name."""
    return {timing.engine: timing for timing in item.comparison.timings if timing.seconds}


def _label(way: BudgetWay) -> str:
    parts = f", {way.micro_batches} micro-batches" if way.micro_batches > 1 else ""
    return f"{way.name}{parts}"


def _megabytes(count: float | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f}"
