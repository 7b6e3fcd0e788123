"""Results as a table, as curves, and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.output import numbers_table, panels, save_figure

OURS = "odtc"


@dataclass(frozen=True)
class Curve:
    """The curve of one way.

    Attributes:
        name: of the way.
        points: peaks in bytes with times over that of the step as it is, falling and rising.
    """

    name: str
    points: Sequence[tuple[int, float]]

    def at(self, limit: float) -> float | None:
        """The least time within a limit, or None where no point is."""
        return min((time for peak, time in self.points if peak <= limit), default=None)


@dataclass(frozen=True)
class Share:
    """A budget.

    Attributes:
        share: of the peak of the step as it is.
        least: no plan takes less time; None where there is no plan.
        times: of the ways, by name; None where they find no plan.
    """

    share: float
    least: float | None
    times: dict[str, float | None]


@dataclass(frozen=True)
class PlannedStep:
    """The plans of one step.

    Attributes:
        name: of the network.
        tasks: calls of the step.
        peak: bytes that are alive at one time in the step as it is.
        seconds: that it took to make odtc's plans.
        shares: budgets.
        curves: of the ways.
    """

    name: str
    tasks: int
    peak: int
    seconds: float
    shares: Sequence[Share]
    curves: Sequence[Curve]


def table_of(found: Sequence[PlannedStep]) -> Table:
    """A row for each budget."""
    ways = [curve.name for curve in found[0].curves]
    table = numbers_table("network", "calls", "planned in, s", "budget", "no less than", *ways)
    for item in found:
        for number, share in enumerate(item.shares):
            head = (item.name, f"{item.tasks}", f"{item.seconds:.1f}") if not number else ("",) * 3
            times = (share.least, *(share.times[way] for way in ways))
            cells = ("" if time is None else f"{time:.4f}" for time in times)
            table.add_row(*head, f"{share.share:.0%}", *cells)
    return table


def figures_of(found: Sequence[PlannedStep]) -> list[dict[str, Any]]:
    """For docs/budgets.md: times of all ways that have a plan, by the budget."""
    return [
        {
            "network": item.name,
            "calls": item.tasks,
            "seconds": item.seconds,
            "times": {f"{each.share:.0%}": _times(each) for each in item.shares},
        }
        for item in found
    ]


def _times(share: Share) -> dict[str, float]:
    times = {"least": share.least, **share.times}
    return {way: time for way, time in times.items() if time is not None}


def draw(found: Sequence[PlannedStep], title: str, path: Path) -> None:
    """Writes the curves of each network as one SVG."""
    across = min(3, len(found))
    down = -(-len(found) // across)
    figure, places = panels(down, across, (4.2 * across, 3 * down + 0.5))
    for place, item in zip(places, found, strict=False):
        for number, curve in enumerate(item.curves):
            shares = [100 * peak / item.peak for peak, _ in curve.points]
            times = [time for _, time in curve.points]
            place.plot(shares, times, f"C{number}.-", label=curve.name, linewidth=1, markersize=3)
        known = [each for each in item.shares if each.least is not None]
        places_of = [100 * each.share for each in known], [each.least for each in known]
        place.plot(*places_of, "k_", label="no less than", markersize=10)
        highest = max((time for _, time in item.curves[0].points), default=1.0)
        place.set_ylim(0.99, max(1.05, min(2.5, 1 + 2 * (highest - 1))))
        place.set_title(item.name, fontsize=9)
        place.set_xlabel("% of the bytes", fontsize=8)
        place.legend(fontsize=6)
    save_figure(figure, f"{title}: time over that of the step as it is, by a model", path)
