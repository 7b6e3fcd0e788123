"""Fills the table, or some of its cells, and writes docs/ways_in.md.

The cells are kept in docs/results/ways_in.json, from which the page is made.
"""

import argparse
import logging
import tempfile
import time
import warnings
from pathlib import Path

from tests.families import FAMILIES
from tests.ways_in.cell import Outcome, fill
from tests.ways_in.page import PAGE, page
from tests.ways_in.results import read_cells, write_cells
from tests.ways_in.ways import WAYS


def main() -> int:
    """Fills cells one after the other, and prints the outcome of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="some of them (default: all)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="some of them")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    cells = read_cells()
    for name in args.families or FAMILIES:
        for way in args.ways:
            start = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                cell = cells[name, way] = fill(name, way, Path(folder))
            parts = (len(cell.lost), "lost"), (len(cell.extra), "beside")
            counts = "".join(f", {number} {what}" for number, what in parts if number)
            took = time.monotonic() - start
            print(f"{name:14}{way:13}{cell.outcome}{counts}, {cell.difference:.1e}, {took:.0f} s")
            for line in cell.said if cell.outcome is not Outcome.EQUAL else ():
                print(f"    {line[:300]}")
            write_cells(cells)
    if cells.keys() >= {(name, way) for name in FAMILIES for way in WAYS}:
        PAGE.write_text(page(cells), encoding="utf-8")
        print(PAGE)
    return int(any(cell.outcome is Outcome.SILENT for cell in cells.values()))


if __name__ == "__main__":
    raise SystemExit(main())
