"""The table, and the goals."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from benchmarks.language_models.compare import PEERS, TORCH, Row
from benchmarks.language_models.goals import MEMORY_GOAL, STEP_GOAL
from benchmarks.output import numbers_table
from odtc.comparison.measures.measure import spread


def table_of(rows: Sequence[Row]) -> Table:
    """A row of each side; `in all` and `files` are of a whole process."""
    heads = ("model", "tokens", "side", "ms per step", "tokens/s", "net MB", "in all", "files")
    table = numbers_table(*heads)
    for row in rows:
        case = row.model, str(row.tokens), row.side if row.side in PEERS else f"odtc, {row.side}"
        if not row.turns:
            table.add_row(*case, "not timed")
            continue
        taken = spread(row.seconds)
        sizes = (f"{each / 1e6:,.0f}" for each in (row.net, row.peak, row.files))
        rate = f"{row.tokens / taken.median:,.0f}"
        table.add_row(*case, taken.text(scale=1e3, digits=0), rate, *sizes)
    return table


def said_of(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each base: its shares of PyTorch's time and memory; and why sides are left out."""
    peers = {(row.model, row.tokens): row for row in rows if row.side == TORCH}
    for row in rows:
        name = f"{row.model}, {row.tokens} tokens, {row.side}"
        peer = peers.get((row.model, row.tokens))
        if row.skipped:
            yield f"{name}: {row.skipped}"
        elif row.side not in PEERS and peer is not None and peer.turns:
            time = spread(row.seconds).median / spread(peer.seconds).median
            yield (
                f"{name}: {time:.2f} of {TORCH}'s time (goal {STEP_GOAL}), "
                f"{row.net / peer.net:.2f} of its memory (goal {MEMORY_GOAL} over int4)"
            )
