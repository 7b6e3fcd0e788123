"""`python -m tests.native.same_bits`: all small models with all options, at 1, 2 and 4 threads.

Each cell is compiled; TVM's virtual machine, odtc's trainer and the runtime in C take four steps
with it. Losses, weights, statistics, optimizer state, averages and evaluations have to be the same.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.models.pytorch.table import SMALL
from benchmarks.output import about, add_figures, write_figures
from odtc.core.errors import OdtcError
from tests.native.parity import THREADS, assert_same_run
from tests.native.same_bits.options import OPTIONS, Option, changing
from tests.native.same_bits.subject import Subject

STEPS = 4
_KINDS = SAME, DIFFER, REFUSED, WITHOUT = "same", "differ", "refused", "without"


def outcome(subject: Subject, option: Option, folder: Path) -> tuple[str, str]:
    """What comes of a cell, and why it is not compared.

    Raises:
        AssertionError: something has other bits.
    """
    try:
        artifact = option.compiled(subject)
    except OdtcError as error:
        return REFUSED, error.what
    with artifact:
        if not option.holds(artifact.manifest):
            return WITHOUT, "the artifact is that of the plain step"
        folder.mkdir()
        change = changing(artifact.manifest)
        data = subject.batches(STEPS)
        assert_same_run(artifact, folder, data, subject.model.lr, THREADS, change)
    return SAME, ""


def row_of(name: str, cells: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """The outcomes of an option by model."""
    found = {kind: [m for m, (what, _) in cells.items() if what == kind] for kind in _KINDS}
    whys = sorted({why for _, why in cells.values() if why})
    return {"what": OPTIONS[name].said, "option": name, **found, "why": whys}


def main(argv: Sequence[str] | None = None) -> int:
    """Compares all cells and prints them; 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.native.same_bits", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=SMALL, default=[*SMALL], metavar="MODEL")
    parser.add_argument("--options", nargs="+", choices=OPTIONS, default=[*OPTIONS])
    add_figures(parser, "native_runtime/same_bits")
    args = parser.parse_args(argv)
    said = about()
    cells: dict[str, dict[str, tuple[str, str]]] = {name: {} for name in args.options}
    for model in args.models:
        with tempfile.TemporaryDirectory() as name:
            subject = Subject(SMALL[model], Path(name))
            for option in args.options:
                start = time.monotonic()
                try:
                    found = outcome(subject, OPTIONS[option], Path(name, option))
                except Exception as error:
                    traceback.print_exc()
                    found = DIFFER, str(error)[:300]
                cells[option][model] = found
                took = time.monotonic() - start
                print(f"{model:26}{option:15}{': '.join(filter(None, found))}, {took:.0f} s")
                sys.stdout.flush()
    rows = [row_of(name, found) for name, found in cells.items()]
    write_figures(args.figures, said, rows, steps=STEPS, threads=list(THREADS))
    return int(any(row[DIFFER] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
