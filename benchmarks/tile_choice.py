"""How good the choice of tiles is: `python -m benchmarks.tile_choice MODEL`.

A product's tile is chosen by a model of the machine, not by trying. Here every product of a
training step, with what is fused after it, is compiled with the best tile of each width, too, and
all of them run in turns. What the choice loses against the best of them is what a search could win.
"""

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tvm
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from tvm import tirx

from benchmarks.output import about, add_files, terminal, write_json
from benchmarks.step_time.cases import StepCase, case_of, names
from odtc.backends.families import family_of
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.product.fused import FusedProduct, fused_product
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.pipeline.phases import fuse_phase
from odtc.backends.targets import parse_target
from odtc.backends.write_products import write_product
from odtc.frontend.file.specialize import specialize
from odtc.frontend.losses.objective import join_losses
from odtc.frontend.losses.terms import terms_of
from odtc.frontend.normalize.pipeline import normalize
from odtc.frontend.optimizers.sgd import SGD
from odtc.frontend.optimizers.update import as_update
from odtc.frontend.trained.selection import select
from odtc.frontend.training import build_training_graph
from odtc.passes.contract import run_pipeline

# Rounds in which each variant of a kernel runs once.
ROUNDS = 30
CHOSEN = "chosen"


@dataclass(frozen=True)
class TileTimes:
    """One product with each of its tiles.

    Attributes:
        kernel: its name.
        shapes: of its tensors.
        seconds: the least that each variant took: `chosen`, and by width in vectors.
    """

    kernel: str
    shapes: list[list[int]]
    seconds: dict[str, float]

    @property
    def best(self) -> str:
        """The variant that took the least."""
        return min(self.seconds, key=lambda variant: self.seconds[variant])


def products_of(case: StepCase) -> Iterator[tuple[str, FusedProduct]]:
    """The products of a training step of SGD, each kernel once."""
    target = parse_target("host-cpu").resolved()
    graph = specialize(case.model, case.batch)
    objective = join_losses(graph, terms_of(case.loss))
    selection = select(graph)
    normalize(graph)
    training = build_training_graph(graph, objective, as_update(SGD()), selection)
    with target.to_tvm():
        # All but the last pass, which is what is tried here.
        module = run_pipeline(fuse_phase(family_of(target))[:-1], training.module)
    for variable, function in module.functions_items():
        product = fused_product(function) if isinstance(function, tirx.PrimFunc) else None
        if product:
            yield variable.name_hint, product


def measured(kernel: str, product: FusedProduct, of: Machine) -> TileTimes:
    """Times a product with the chosen tile, and with the best one of each width."""
    variants = {CHOSEN: of} | {
        f"{width} wide": dataclasses.replace(of, widths=(width,)) for width in of.widths
    }
    compiled = {name: _compiled(product, variant) for name, variant in variants.items()}
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    tensors = [
        tvm.runtime.tensor(rng.standard_normal(shape).astype(str(each.dtype)))
        for shape, each in zip(shapes, product.parameters, strict=True)
    ]
    seconds = dict.fromkeys(variants, float("inf"))
    for _ in range(ROUNDS):
        for name, library in compiled.items():
            begin = time.perf_counter()
            library["main"](*tensors)
            seconds[name] = min(seconds[name], time.perf_counter() - begin)
    return TileTimes(kernel, shapes, seconds)


def _compiled(product: FusedProduct, machine: Machine) -> tvm.runtime.Executable:
    target = parse_target("host-cpu").to_tvm()
    with target:
        function = write_product(product, machine, CPU_LOOPS).with_attr("global_symbol", "main")
    return tvm.compile(tvm.IRModule({"main": function}), target)


def table_of(choices: list[TileTimes]) -> Table:
    """The products for which the choice loses most."""
    table = Table("product", "shapes", "ms", "best", "ms", "times the best", box=box.SIMPLE)
    lost = sorted(choices, key=lambda c: c.seconds[c.best] - c.seconds[CHOSEN])
    for choice in lost[:12]:
        chosen, best = choice.seconds[CHOSEN], choice.seconds[choice.best]
        shapes = " ".join("x".join(map(str, shape)) or "1" for shape in choice.shapes)
        times = (f"{chosen * 1e3:.2f}", choice.best, f"{best * 1e3:.2f}", f"{chosen / best:.2f}")
        table.add_row(choice.kernel, shapes, *times)
    return table


def main() -> int:
    """Runs a model; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tile_choice",
        description=(__doc__ or "").splitlines()[0],
        epilog=f"Models: {', '.join(names())}.",
    )
    parser.add_argument("model", choices=names(), metavar="MODEL")
    add_files(parser, "tile_choice")
    options = parser.parse_args()
    of = machine_of(parse_target("host-cpu").resolved().vector_bits)
    found = list(products_of(case_of(options.model)))
    console = Console(stderr=True)
    choices = [
        measured(name, product, of)
        for name, product in track(found, "measuring products", console=console)
    ]
    chosen = sum(choice.seconds[CHOSEN] for choice in choices)
    best = sum(choice.seconds[choice.best] for choice in choices)
    terminal(160).print(
        table_of(choices),
        f"{options.model}: {len(choices)} products, the least of {ROUNDS} runs: "
        f"{chosen * 1e3:.1f} ms with the chosen tiles, {best * 1e3:.1f} ms with the best ones, "
        f"{chosen / best - 1:.1%} more",
    )
    write_json(about() | {"model": options.model}, "products", choices, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
