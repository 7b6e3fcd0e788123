"""The least arena of a step of the whole batch: `python -m benchmarks.budget.least`.

What `odtc plan MODEL --batch 8 --micro-batches 1` says of its first plan, without a budget, and of
its smallest one. Bytes are counted, and nothing is timed.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx

import odtc
from benchmarks.memory.__main__ import chosen_networks
from benchmarks.options import add_sizes
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
from benchmarks.step_time.cases import case_of

# One whose least arena weights set, and one where activations do.
NETWORKS = ("bert_base", "vgg16")
TARGET = "host-cpu{threads=1}"


@dataclass(frozen=True)
class LeastArena:
    """A network.

    Attributes:
        network: its name.
        weights: bytes of weights and running statistics, which lie beside the arena.
        arena: bytes without a budget.
        least: bytes of the smallest plan.
    """

    network: str
    weights: int
    arena: int
    least: int

    def figures(self) -> dict[str, Any]:
        """The row of the page."""
        parts = ("weights", "arena", "least")
        return {"network": self.network, **{f"{p}_mb": getattr(self, p) / 1e6 for p in parts}}


def least_of(name: str, batch: int) -> LeastArena:
    """Plans a network."""
    case = case_of(name, batch, symbolic=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(case.model, path)
        found = odtc.plan(path, TARGET, batch=batch, micro_batches=1, loss=case.loss)
    first, *_, last = [found.points[0], *found.points]
    return LeastArena(name, found.parameter_bytes, first.arena_bytes, last.arena_bytes)


def main(argv: list[str] | None = None) -> int:
    """Plans them; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.budget.least", description=(__doc__ or "").splitlines()[0]
    )
    add = partial(parser.add_argument, metavar="")
    add("--networks", type=chosen_networks, default=",".join(NETWORKS), help="by name, or all")
    add_sizes(parser, batch=8)
    add_files(parser, "least")
    add_figures(parser, "budgets/least")
    options = parser.parse_args(argv)
    console, said = terminal(), about()
    introduce(console, said, f"batch {options.batch}, {TARGET}")
    rows: list[LeastArena] = []
    for name in options.networks:
        rows.append(least_of(name, options.batch))
        # A large network takes minutes: what is there is written after each.
        write_json(said, "networks", rows, options.json)
    table = numbers_table("network", "weights, MB", "arena, MB", "least arena, MB")
    for row in rows:
        name, *sizes = row.figures().values()
        table.add_row(name, *(f"{each:,.1f}" for each in sizes))
    console.print(table)
    write_figures(options.figures, said, [row.figures() for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
