"""Results as a table, as a chart, and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from benchmarks.output import numbers_table, panels, save_figure


@dataclass(frozen=True)
class Packed:
    """One input and its plan.

    Attributes:
        name: of the input.
        buffers: how many it has.
        lower_bound: bytes; no plan is lower.
        height: bytes of the plan.
        proven_optimal: whether they are the same.
        seconds: of the solver, without reading and checking.
    """

    name: str
    buffers: int
    lower_bound: int
    height: int
    proven_optimal: bool
    seconds: float

    @property
    def ratio(self) -> float:
        """The height by its bound."""
        return self.height / self.lower_bound


def table_of(results: Sequence[Packed]) -> Table:
    """A row for each input."""
    heads = ("input", "buffers", "lower bound", "height", "height / bound", "proven", "seconds")
    table = numbers_table(*heads)
    for item in results:
        table.add_row(
            item.name,
            f"{item.buffers:,}",
            f"{item.lower_bound:,}",
            f"{item.height:,}",
            f"{item.ratio:.4f}",
            "optimal" if item.proven_optimal else "",
            f"{item.seconds:.2f}",
        )
    return table


def draw(results: Sequence[Packed], title: str, path: Path) -> None:
    """Writes two bar charts as one SVG: how far plans are above the bound, and seconds."""
    size = (10, 1.2 + 0.25 * len(results))
    figure, (gaps, times) = panels(1, 2, size, sharey=True)
    names = [item.name for item in results]
    for panel, values, form, label in (
        (gaps, [100 * (item.ratio - 1) for item in results], "%.2f", "% above the lower bound"),
        (times, [item.seconds for item in results], "%.2f", "seconds"),
    ):
        colours = ["C2" if item.proven_optimal else "C0" for item in results]
        panel.bar_label(panel.barh(names, values, color=colours), fmt=form, padding=4, fontsize=8)
        panel.set_xlabel(label)
        panel.margins(x=0.15)
    gaps.invert_yaxis()
    save_figure(figure, f"{title}; green: proven optimal", path)
