"""Time of `odtc plan`: `python -m benchmarks.plan_time`.

Each model is planned in a process of its own, as `odtc plan MODEL --batch N` does. Seconds are of
the clock and of the processor, of all cores; where other programs run, the latter are better.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from benchmarks.memory.cases import NETWORKS
from benchmarks.options import listed, positive
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
from benchmarks.step_time.cases import case_of, names

BATCHES = "8,64"
# What each stage of `odtc.plan` is counted as, by how its name begins.
PARTS = {"make": "kernels", "look": "plans"}


@dataclass(frozen=True)
class PlanRow:
    """A model that was planned.

    Attributes:
        model: its name.
        batch: samples in a step.
        wall: seconds of each stage.
        processor: seconds of each stage, of all cores.
        budgets: lines of the table.
    """

    model: str
    batch: int
    wall: Mapping[str, float]
    processor: Mapping[str, float]
    budgets: int

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        spent = self._spent()
        sums = (sum(each.values()) for each in (self.wall, self.processor))
        seconds = (f"{each:.1f}" for each in (*sums, *spent.values()))
        return self.model, str(self.batch), *seconds, str(self.budgets)

    def _spent(self) -> dict[str, float]:
        """Seconds of the processor of each of `PARTS`, and of the rest."""
        spent = dict.fromkeys((*PARTS.values(), "rest"), 0.0)
        for stage, seconds in self.processor.items():
            spent[PARTS.get(stage.split(" ")[0], "rest")] += seconds
        return spent

    def figures(self) -> dict[str, Any]:
        """For docs/performance.md."""
        wall, processor = (sum(each.values()) for each in (self.wall, self.processor))
        head = {"model": self.model, "batch": self.batch}
        return {**head, "seconds": wall, "processor": processor, **self._spent()}


def planned(name: str, batch: int, folder: Path, *, in_python: bool = False) -> PlanRow:
    """Plans a model.

    Args:
        name: of the model, as of `benchmarks.step_time.cases`.
        batch: samples in a step.
        folder: for the model.
        in_python: whether no inner loop is in C++.

    Raises:
        CalledProcessError: planning fails.
    """
    # Micro-batches take other batches.
    case = case_of(name, batch, symbolic=True)
    path = folder / "model.onnx"
    onnx.save(case.model, path)
    given = str(path), str(batch), case.loss, str(in_python), str(time.time())
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.plan_time.worker", *given],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    said = json.loads(done.stdout)
    return PlanRow(name, batch, said["wall"], said["processor"], said["budgets"])


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.plan_time", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", default=",".join(NETWORKS), help="by name, joined by commas")
    add("--batches", default=BATCHES, help="samples in a step, joined by commas")
    parser.add_argument("--python", action="store_true", help="no inner loop is in C++")
    add_files(parser, "plan_time")
    add_figures(parser, "performance/plan_time")
    options = parser.parse_args()
    models = listed(options.models, list(names()), "model")
    batches = [positive(each) for each in options.batches.split(",")]
    console, said = terminal(), about() | {"in_python": options.python}
    introduce(console, said, f"{len(os.sched_getaffinity(0))} cores")
    columns = ("s", "processor, s", *PARTS.values(), "rest", "budgets")
    table = numbers_table("model", "batch", *columns)
    rows: list[PlanRow] = []
    for name in models:
        for batch in batches:
            with TemporaryDirectory() as folder:
                rows.append(planned(name, batch, Path(folder), in_python=options.python))
            table.add_row(*rows[-1].cells())
            # A run takes long: what is there is written after each.
            write_json(said, "rows", rows, options.json)
    console.print(table)
    write_figures(options.figures, said, [row.figures() for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
