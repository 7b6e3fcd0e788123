"""Where odtc loses on more threads, of the rows that docs/performance.md shows in full."""

from collections.abc import Iterator

from benchmarks.pages.measured import rows_text
from benchmarks.pages.result import Result, read_result
from benchmarks.pages.text import median_of, table
from odtc.comparison.measures.measure import cpu_text

_STEPS = "performance/cores"
Cell = tuple[str, str, str, str, str]


def core_losses() -> Iterator[str]:
    """The section's lines, its title first."""
    return losses_in(read_result(_STEPS))


def losses_in(result: Result) -> Iterator[str]:
    """The same of any figures."""
    run, lost = result.runs[0], [*_slower(result)]
    where = f"{cpu_text(run['machine'])}, {run['machine']['cores']} cores"
    most = max(row["threads"] for row in result.rows)
    yield "## Where odtc loses on more threads"
    yield ""
    yield (
        f"On {where}, PyTorch's step is faster in {len(lost)} of "
        f"{len(result.rows)} comparisons on 1 to {most} threads. Only time was "
        "compared. [performance.md](performance.md#on-more-threads) has all of them."
    )
    yield ""
    if lost:
        yield from table(
            ("model", "threads", "than", "what", "the peer's over odtc's"), lost, words=4
        )
        yield ""
    yield rows_text(_STEPS, result)


def _slower(result: Result) -> Iterator[Cell]:
    """Steps of odtc that take longer, those that lose most first."""
    for row in sorted(result.rows, key=lambda row: median_of(row["ratio"])):
        if (ratio := median_of(row["ratio"])) < 1:
            yield row["model"], str(row["threads"]), "PyTorch", "time", f"{ratio:.2f}"
