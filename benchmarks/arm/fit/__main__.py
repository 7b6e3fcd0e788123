"""The command line: see the package."""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.table import Table

import benchmarks.arm.fit as package
from benchmarks.arm.cores import CORES, Core
from benchmarks.arm.fit.decisions import CountedProduct, counted_products, tasks_for
from benchmarks.arm.fit.table import write_table
from benchmarks.arm.fit.tiles import Shape, cycles_of_tiles, shapes_of
from benchmarks.arm.ours import counted_case
from benchmarks.options import listed, positive
from benchmarks.output import about, introduce, numbers_table, terminal
from benchmarks.step_time.cases import names
from odtc.backends.counted_tiles import NOT_COUNTED
from odtc.backends.families import family_of
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.targets import parse_target

# Code for phones, and the cores that it is counted on.
_CODE = "linux-arm64-cpu{mcpu=cortex-a55}"
_CORES = (CORES["Cortex-A55"], CORES["Cortex-A76"])


# The table that the model reads; kernels for other cores go by the model alone.
_TABLE, _OF_TABLE = "OF_SMALL_CORES", "Cortex-A55"


def _target(core: Core) -> str:
    """Code for a core itself."""
    return f"linux-arm64-cpu{{mcpu={core.mcpu}}}"


def _models(text: str) -> list[str]:
    return [] if text == "none" else listed(text, names(), "model")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.arm.fit",
        description=(package.__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(names())}.",
    )
    add = partial(parser.add_argument, metavar="")
    add("--models", type=_models, default="lenet", help="whose products are counted, or none")
    add("--tasks", type=positive, default=6, help="products of each, those with most of a step")
    add("--candidates", type=positive, default=3, help="other candidates of each decision")
    parser.add_argument("--write", action="store_true", help="the table that the model reads")
    return parser


def tiles_table(core: Core, cycles: Mapping[Shape, float]) -> Table:
    """Tiles, those with the fewest cycles for a multiply-add first."""
    machine = family_of(parse_target(_target(core)).resolved()).products.machine
    assert isinstance(machine, Machine)
    alone = replace(machine, counted=NOT_COUNTED)
    table = numbers_table("tile", "cycles of a step", "of a multiply-add", "by the model alone")
    for (rows, vectors), each in sorted(cycles.items(), key=lambda item: _each(*item)):
        step = alone.tile_of(rows, vectors).step / (1 if machine.blocked else 2)
        cells = f"{each:.2f}", f"{_each((rows, vectors), each):.3f}", f"{step:.2f}"
        table.add_row(f"{core.name}: {rows} x {vectors}", *cells)
    return table


def _each(shape: Shape, cycles: float) -> float:
    return cycles / (shape[0] * shape[1])


def products_table(products: Sequence[CountedProduct]) -> Table:
    """What the model takes of each product, and what saves most of it on each core."""
    table = numbers_table("product", "core", "k cycles of a step", "saved", "by")
    for product in products:
        for at, core in enumerate(_CORES):
            usual = product.usual[at].overlapped(core) * product.task.calls
            name, value, saved = max(
                product.gains(at, core), key=lambda gain: gain[2], default=("", (), 0.0)
            )
            by = f"{name} {','.join(map(str, value))}" if saved > 0 else "nothing"
            share = f"{max(saved, 0) / usual:.1%}"
            table.add_row(product.task.names[0][:40], core.name, f"{usual / 1e3:,.0f}", share, by)
    return table


def summary(model: str, products: Sequence[CountedProduct]) -> Iterator[str]:
    """What the best candidates of each decision save of all products, where others are as usual."""
    for at, core in enumerate(_CORES):
        usual = sum(each.usual[at].overlapped(core) * each.task.calls for each in products)
        saved = dict[str, float]()
        for product in products:
            best = dict[str, float]()
            for name, _, cycles in product.gains(at, core):
                best[name] = max(best.get(name, 0), cycles)
            for name, cycles in best.items():
                saved[name] = saved.get(name, 0) + cycles
        said = ", ".join(f"{name} {cycles / usual:.1%}" for name, cycles in saved.items())
        yield (
            f"{model}, {core.name}: {usual / 1e6:,.1f} M modelled cycles of {len(products)} "
            f"products; the best candidates that were counted save {said or 'nothing'}"
        )


def main() -> int:
    """Counts, prints, and writes the table where that is asked for."""
    options = _parser().parse_args()
    console = terminal(120)
    introduce(console, about(), "emulated 64-bit ARM: counts and modelled cycles, no times")
    for core in _CORES:
        with tempfile.TemporaryDirectory() as folder:
            target = _target(core)
            cycles = cycles_of_tiles(target, shapes_of(target), core, Path(folder))
        console.print(tiles_table(core, cycles))
        if options.write and core.name == _OF_TABLE:
            console.print(f"{_TABLE}: {write_table(_TABLE, cycles)}")
    for model in options.models:
        case = counted_case(model)
        tasks = tasks_for(case, parse_target(_CODE).resolved(), options.tasks)
        products = counted_products(tasks, _CODE, _CORES, options.candidates)
        console.print(products_table(products))
        for line in summary(model, products):
            console.print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
