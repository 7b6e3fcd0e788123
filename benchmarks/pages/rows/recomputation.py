"""The table of plans in docs/budgets.md."""

from benchmarks.pages.result import Result
from benchmarks.pages.text import number, table

WAYS = ("odtc", "Chen et al., 2016", "Revolve, 2000", "minimum cut")


def plans(result: Result) -> list[str]:
    """A row for each budget; the least that any plan could take stands first."""
    heads = ["network", "calls", "planned in", "budget", "least", *WAYS]
    rows = []
    for row in result.rows:
        head = (row["network"], number(row["calls"], 0), f"{row['seconds']:.1f} s")
        for at, (share, times) in enumerate(row["times"].items()):
            cells = (f"{times[way]:.4f}" if way in times else "" for way in ("least", *WAYS))
            rows.append((*(("", "", "") if at else head), share, *cells))
    return table(heads, rows)
