"""Where odtc loses with adapters of language models on a CPU."""

from collections.abc import Iterator, Sequence

from benchmarks.pages.measured import rows_text
from benchmarks.pages.result import Result, Row, read_result
from benchmarks.pages.text import median_of, table
from odtc.comparison.measures.measure import cpu_text

# One file for each machine.
_STEPS = ("language_models/steps", "language_models/zen4")
_PEERS = {"pytorch": "PyTorch", "checkpointed": "PyTorch with gradient checkpointing"}
Cell = tuple[str, str, str, str, str, str]


def adapter_losses() -> Iterator[str]:
    """The section's lines, its title first."""
    yield "## Where odtc loses with adapters on a CPU"
    for name in _STEPS:
        yield ""
        yield from losses_in(name, read_result(name))


def losses_in(name: str, result: Result) -> Iterator[str]:
    """The lines of a machine.

    Args:
        name: of the file of its figures.
        result: these figures.
    """
    compared = [*_compared(result.rows)]
    lost = [cell for cell, ratio in compared if ratio < 1]
    run = result.runs[0]
    yield (
        f"On {cpu_text(run['machine'])}, {_threads(run['threads'])}, of {len(compared)} "
        f"comparisons of LoRA with PyTorch and PEFT, of time and of memory without imports, odtc "
        f"loses {len(lost)}. Energy was not compared. "
        "[performance.md](performance.md#adapters-of-language-models) has all of them."
    )
    yield ""
    if lost:
        heads = ("model", "tokens", "base", "than", "what", "the peer's over odtc's")
        yield from table(heads, lost, words=5)
        yield ""
    for row in result.rows:
        if "skipped" in row:
            case = f"{row['model']}, {row['tokens']} tokens, {row['base']}"
            yield f"- not timed: {case}: {row['skipped']}"
            yield ""
    yield rows_text(name, result)


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count > 1)}"


def _compared(rows: Sequence[Row]) -> Iterator[tuple[Cell, float]]:
    """Each comparison, and what the peer takes over what odtc does."""
    for row in rows:
        for key, peer in _PEERS.items():
            if "ratio" in row.get(key, {}):
                case = row["model"], str(row["tokens"]), row["base"], peer
                for what, ratio in (
                    ("time", median_of(row[key]["ratio"])),
                    ("memory", row[key]["net"] / row["net"]),
                ):
                    yield (*case, what, f"{ratio:.2f}"), ratio
