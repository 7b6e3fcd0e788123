"""The cost of getting memory from the system: `python -m benchmarks.budget.clearing`.

A change to a larger plan asks for as much as it adds. Linux clears each page when it is first
written; in a virtual machine, its host may have to find the page first. So one byte of each page is
written, in huge pages and in those of 4 KB, in turns: when the memory is new, and when it was given
back just before, which a host hardly hears of.
"""

import argparse
import mmap
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.options import positive
from benchmarks.output import (
    about,
    add_figures,
    add_files,
    introduce,
    numbers_table,
    terminal,
    write_figures,
    write_json,
)
from odtc.comparison.measures.measure import spread

# What the system is advised; Python's `mmap` lacks the name of the second one.
_NO_HUGE_PAGES = 15
KINDS = {"huge": mmap.MADV_HUGEPAGE, "4 KB": _NO_HUGE_PAGES}
_PAGE = 4096
# Since the machine began: how often pages of 4 KB took the place of a huge one that was missing.
_FALLBACKS = "thp_fault_fallback"


@dataclass
class Cleared:
    """Memory of one kind of pages.

    Attributes:
        kind: of pages.
        nbytes: of the memory.
        new: seconds of a core to write all pages of new memory, each time.
        again: the same, when the memory was written and given back just before.
        fallbacks: huge pages that were missing meanwhile, by the system's count.
    """

    kind: str
    nbytes: int
    new: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)
    fallbacks: int = 0


def measured(nbytes: int, rounds: int) -> list[Cleared]:
    """Both kinds in turns, so many times."""
    found = [Cleared(kind, nbytes) for kind in KINDS]
    for number in range(rounds):
        for each in found[:: -1 if number % 2 else 1]:
            before = _fallbacks()
            with mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
                memory.madvise(KINDS[each.kind])
                each.new.append(_written(memory))
                memory.madvise(mmap.MADV_DONTNEED)
                each.again.append(_written(memory))
            each.fallbacks += _fallbacks() - before
    return found


def _written(memory: mmap.mmap) -> float:
    """Seconds of a core to write a byte of each page."""
    view = np.frombuffer(memory, np.uint8)
    began = time.process_time()
    view[::_PAGE] = 1
    return time.process_time() - began


def _fallbacks() -> int:
    counts = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(counts.get(_FALLBACKS, 0))


def table_of(found: Sequence[Cleared]) -> Table:
    """A row for each kind of pages."""
    table = numbers_table("pages", "new, ms", "GB/s", "given back before, ms", "GB/s", "fallbacks")
    for item in found:
        cells = [
            text
            for seconds in map(spread, (item.new, item.again))
            for text in (seconds.text(1e3, 0), f"{item.nbytes / seconds.median / 1e9:.1f}")
        ]
        table.add_row(item.kind, *cells, str(item.fallbacks))
    return table


def figures_of(item: Cleared) -> dict[str, Any]:
    """Milliseconds for docs/budgets.md."""
    new, again = ([each * 1e3 for each in seconds] for seconds in (item.new, item.again))
    return {"pages": item.kind, "new": new, "again": again}


def main() -> int:
    """Measures both kinds of pages; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.budget.clearing", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="", type=positive)
    add("--megabytes", default=314, help="of 1,000,000 bytes")
    add("--rounds", default=5, help="how often each kind is written")
    add_files(parser, "clearing")
    add_figures(parser, "budgets/clearing")
    options = parser.parse_args()
    console, said = terminal(), about() | {"megabytes": options.megabytes}
    introduce(console, said, f"{options.megabytes} MB")
    found = measured(options.megabytes * 1_000_000, options.rounds)
    write_json(said, "pages", found, options.json)
    rows = [figures_of(item) for item in found]
    write_figures(options.figures, said, rows, megabytes=options.megabytes)
    console.print(table_of(found), f"raw samples: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
