"""Results as tables, as a chart, and as JSON with raw samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.memory.rows import ENGINES, OURS, PEERS, MemoryRow, geometric_mean
from benchmarks.output import numbers_table, panels, save_figure

# How far the arena may be above its bound, and what a process may grow by beside its plan.
BOUND_GOAL, GROWTH_GOAL = 1.01, 3e6
# Panels in a row of the chart.
_ACROSS = 3


def _megabytes(count: float | None) -> str:
    return "" if count is None else f"{count / 1e6:.1f}"


def plan_table(rows: Sequence[MemoryRow]) -> Table:
    """The table of odtc's plans, and of what a process grows by beside each, in MB.

    `fed` is inputs and labels, `beyond` what a process grew by beside these and the total, `files`
    a part of that: pages of mapped files, the step's own library among them.
    """
    heads = "network arena /bound parameters state total fed grown beyond files".split()
    table = numbers_table(*heads)
    for row in rows:
        if row.plan is None:
            table.add_row(row.network, "failed")
            continue
        plan = row.plan
        shown = (plan.parameters, plan.optimizer, plan.total, plan.fed)
        table.add_row(
            row.network,
            _megabytes(plan.arena),
            f"{plan.arena / plan.lower_bound:.4f}",
            *map(_megabytes, (*shown, row.net(OURS), row.beyond, row.files)),
        )
    return table


def peer_table(rows: Sequence[MemoryRow]) -> Table:
    """MB of odtc and its peers, and how many times a peer's odtc's total is."""
    table = numbers_table("network", OURS, *PEERS)
    for row in rows:
        cells = []
        for name in PEERS:
            share = row.ratio(name)
            known = "" if share is None else f" ({share:.2f})"
            cells.append(f"{_megabytes(row.peer(name))}{known}")
        table.add_row(row.network, _megabytes(row.plan.total if row.plan else None), *cells)
    return table


def figures_of(rows: Sequence[MemoryRow]) -> list[dict[str, Any]]:
    """For docs/memory.md; a network that failed is left out."""
    return [
        {
            "network": row.network,
            "batch": row.batch,
            "arena_mb": row.plan.arena / 1e6,
            "total_mb": row.plan.total / 1e6,
            "shares": {name: share for name in PEERS if (share := row.ratio(name)) is not None},
            "beyond_mb": None if row.beyond is None else row.beyond / 1e6,
            "files_mb": None if row.files is None else row.files / 1e6,
        }
        for row in rows
        if row.plan
    ]


def bounds_of(rows: Sequence[MemoryRow]) -> dict[str, float]:
    """How far arenas are above their lower bounds, and how many are at them."""
    above = [row.plan.arena / row.plan.lower_bound for row in rows if row.plan]
    return {"above_bound": max(above, default=1.0), "at_bound": above.count(1.0)}


def loss_table(rows: Sequence[MemoryRow]) -> Table:
    """The last loss of each engine that took steps."""
    measured = [name for name in ENGINES if any(row.samples.get(name) for row in rows)]
    table = numbers_table("loss of the last step", *measured)
    for row in rows:
        samples = [row.samples.get(name) for name in measured]
        losses = [f"{found[0].losses[-1]:.5f}" if found else "" for found in samples]
        table.add_row(row.network, *losses)
    return table


def failures(rows: Sequence[MemoryRow]) -> list[str]:
    """One line for each engine that has no result."""
    return [f"{row.network}, {name}: {why}" for row in rows for name, why in row.failures.items()]


def summary(rows: Sequence[MemoryRow]) -> list[str]:
    """One line for each thing that is aimed at."""
    lines = []
    for name, goal in PEERS.items():
        found = geometric_mean([row.ratio(name) for row in rows])
        if found is not None:
            aim = f"; the goal is {goal}" if goal else ""
            mean, count = found
            line = f"total by {name}: {mean:.3f} in the geometric mean of {count} networks{aim}"
            lines.append(line)
    plans = [row.plan for row in rows if row.plan]
    if plans:
        worst = max(plan.arena / plan.lower_bound for plan in plans)
        lines.append(f"arena by its lower bound: at most {worst:.4f}; the goal is {BOUND_GOAL}")
    beyond = [row.beyond for row in rows if row.beyond is not None]
    if beyond:
        within = sum(abs(each) <= GROWTH_GOAL for each in beyond)
        lines.append(
            f"processes of odtc grew by {min(beyond) / 1e6:.1f} to {max(beyond) / 1e6:.1f} MB more "
            f"than total and batch; {within} of {len(beyond)} within {GROWTH_GOAL / 1e6:.0f} MB"
        )
    return lines


def draw(rows: Sequence[MemoryRow], title: str, path: Path) -> None:
    """Writes bar charts as SVG, a panel for each network; odtc's bars have a part for each kind."""
    down = -(-len(rows) // _ACROSS)
    size = (4.6 * _ACROSS, 1.0 + 1.6 * down)
    figure, places = panels(down, _ACROSS, size)
    for panel, row in zip(places, rows, strict=False):
        _panel(panel, row)
    for panel in places[len(rows) :]:
        panel.set_axis_off()
    save_figure(figure, f"{title}; MB of a training step; odtc: arena, parameters, state", path)


def _panel(panel: Any, row: MemoryRow) -> None:
    if row.plan:
        start, bar = 0.0, None
        sizes = (row.plan.arena, row.plan.parameters, row.plan.optimizer)
        for size, colour in zip(sizes, ("C0", "C9", "C4"), strict=True):
            bar = panel.barh([OURS], [size / 1e6], left=[start], color=colour)
            start += size / 1e6
        panel.bar_label(bar, [f"{start:.0f}"], padding=4, fontsize=7)
    sizes = [(row.peer(name) or 0) / 1e6 for name in PEERS]
    bars = panel.barh(list(PEERS), sizes, color="0.7")
    labels = [f"{size:.0f}" if size else "none" for size in sizes]
    panel.bar_label(bars, labels, padding=4, fontsize=7)
    panel.set_title(f"{row.network}, batch {row.batch}", loc="left", fontsize=9)
    panel.tick_params(labelsize=7)
    panel.invert_yaxis()
    panel.margins(x=0.15)
