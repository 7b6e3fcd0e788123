"""The command line: see the package."""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import benchmarks.arm as package
from benchmarks.arm.cores import CORES, Core
from benchmarks.arm.ours import counted_case
from benchmarks.arm.report import Row, figures_of, kernels_table, summary, table_of
from benchmarks.arm.sides import OURS, SIDES, sides_of
from benchmarks.options import listed, positive
from benchmarks.output import RESULTS, about, introduce, terminal, write_figures
from benchmarks.step_time.cases import NETWORKS, names
from odtc.comparison.measures.workload import training_work


def _models(text: str) -> list[str]:
    return listed(text, names(), "model")


def _cores(text: str) -> list[Core]:
    return [CORES[name] for name in listed(text, [*CORES], "core")]


def _sides(text: str) -> list[str]:
    """Of these names, odtc first: it is what the others are compared with."""
    return list(dict.fromkeys([OURS, *listed(text, [*SIDES], "side")]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arm",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(names())}. Cores: {', '.join(CORES)}. "
        f"Sides: {', '.join(SIDES)}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", type=_models, default=",".join(NETWORKS), help="by name, joined by commas")
    add("--cores", type=_cores, default="Cortex-A55,Cortex-A76", help="by name, joined by commas")
    add("--sides", type=_sides, default="all", help="by name; odtc is always one")
    add("--batch", type=positive, help="samples in a step; 1, but for small models")
    add("--steps", type=positive, default=2, help="steps that are counted")
    add("--kernels", type=positive, default=12, help="kernels of odtc that are listed")
    add("--json", type=Path, default=RESULTS / "arm.json", help="for raw counts")
    return parser


def rows_of(options: argparse.Namespace) -> Iterator[Row]:
    """Each model on each core."""
    for model in options.models:
        case = counted_case(model, options.batch)
        flops = training_work(case.model, case.batch).flops
        sides = [sides_of(side, case, options.cores, options.steps) for side in options.sides]
        for core, *found in zip(options.cores, *sides, strict=True):
            yield Row(model, case.batch, core, flops, found)


def main() -> int:
    """Counts, prints tables, and writes raw counts; 1 where a side is not compared with odtc."""
    options = _parser().parse_args()
    console, said = terminal(160), about()
    introduce(console, said, "emulated 64-bit ARM: counts and modelled cycles, no times")
    rows: list[Row] = []
    for row in rows_of(options):
        rows.append(row)
        console.print(table_of([row]))
        if not row.sides[0].skipped:
            console.print(kernels_table(row, options.kernels))
        write_figures(options.json, said, figures_of(rows))
    console.print(*summary(rows), f"raw counts: {options.json}", sep="\n")
    return int(not all(row.is_right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
