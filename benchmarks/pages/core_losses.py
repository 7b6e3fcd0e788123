"""Where odtc loses time on a CPU, of the steps that docs/performance.md shows."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.pages.measured import rows_text
from benchmarks.pages.result import Result, Row, read_result
from benchmarks.pages.suite_rows import not_in_suites
from benchmarks.pages.text import median_of, table
from odtc.comparison.measures.measure import cpu_text

# Each file of figures, and the section of the page that has them.
_FILES = {
    "performance/step_time": "on-a-cpu",
    "performance/zen4": "on-an-older-core",
    "performance/cores": "on-more-threads",
}
Cell = tuple[str, str, str, str, str]


def core_losses() -> Iterator[str]:
    """The section's lines, its title first."""
    yield "## Where odtc loses time on CPUs"
    for name, section in _FILES.items():
        yield ""
        yield from losses_in(name, section, read_result(name))


def losses_in(name: str, section: str, result: Result) -> Iterator[str]:
    """The lines of a file.

    Args:
        name: of the file of the figures.
        section: of docs/performance.md.
        result: the figures.
    """
    rows = not_in_suites(result)
    compared = [(row, peer, ratio) for row in rows for peer, ratio in _ratios(row).items()]
    lost = sorted((case for case in compared if case[2] < 1), key=lambda case: case[2])
    machine = result.runs[0]["machine"]
    peers = " or ".join(dict.fromkeys(peer for _, peer, _ in compared))
    most = max(row["threads"] for row in rows)
    yield (
        f"On {cpu_text(machine)}, {machine['cores']} cores, a step of {peers} is faster in "
        f"{len(lost)} of {len(compared)} comparisons on 1 to {most} threads. Only time was "
        f"compared. [performance.md](performance.md#{section}) has all of them."
    )
    yield ""
    if lost:
        heads = ("model", "threads", "than", "what", "the peer's over odtc's")
        yield from table(heads, [_cell(*case) for case in lost], words=4)
        yield ""
    yield rows_text(name, result)


def _ratios(row: Row) -> Mapping[str, float]:
    """Each peer's time over odtc's."""
    samples: Mapping[str, Sequence[float]] = row.get("ratios") or {"PyTorch": row["ratio"]}
    return {peer: median_of(each) for peer, each in samples.items()}


def _cell(row: Row, peer: str, ratio: float) -> Cell:
    return row["model"], str(row["threads"]), peer, "time", f"{ratio:.2f}"
