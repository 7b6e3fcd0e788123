"""The gain of Winograd's form of a convolution, by shape: `python -m benchmarks.winograd`.

Each convolution of 3x3 taps, and the gradient of its data, is compiled in both forms, whatever the
model of the machine would take; they run in turns, with caches emptied before each call as in a
training step, and their values are compared. The last column says which the model takes. One thread
is timed by its own clock, which stands still while others use the core.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
from rich.console import Console
from rich.progress import track
from tvm import relax, tirx

from benchmarks.options import listed, positive
from benchmarks.output import (
    about,
    add_files,
    introduce,
    numbers_table,
    panels,
    save_figure,
    terminal,
    write_json,
)
from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.product.fused import FusedProduct, fused_product
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.kernels.winograd.cut import DIRECT_FORM, FORM, WINOGRAD_FORM
from odtc.backends.targets import parse_target
from odtc.backends.write_products import write_product
from odtc.comparison.measures.measure import spread

# Channels, filters and side of the image.
SHAPES = {
    "squeezenet-16": (16, 64, 55),
    "squeezenet-32": (32, 128, 27),
    "squeezenet-48": (48, 192, 13),
    "squeezenet-64": (64, 256, 13),
    "resnet-64": (64, 64, 56),
    "resnet-128": (128, 128, 28),
    "resnet-256": (256, 256, 14),
    "resnet-512": (512, 512, 7),
    "vgg-64": (64, 64, 224),
    "vgg-128": (128, 128, 112),
    "vgg-256": (256, 256, 56),
    "unet-64": (64, 64, 96),
    "unet-128": (128, 128, 48),
    "unet-256": (256, 256, 24),
}
OPERATORS = {"forward": relax.op.nn.conv2d, "gradient": relax.op.nn.conv2d_transpose}
_FLUSHED = 1 << 22
# Of the largest value.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class WinogradRow:
    """A convolution in both forms.

    Attributes:
        name: of the shape.
        family: "forward" or "gradient".
        shapes: of image, weight and result.
        is_taken: whether the model takes Winograd's form.
        direct, winograd: seconds of each round.
    """

    name: str
    family: str
    shapes: list[list[int]]
    is_taken: bool
    direct: list[float]
    winograd: list[float]

    @property
    def ratios(self) -> list[float]:
        """How many times as fast Winograd's form is, by round."""
        return [one / other for one, other in zip(self.direct, self.winograd, strict=True)]


def product_of(family: str, batch: int, sizes: tuple[int, int, int]) -> FusedProduct:
    """The product of a convolution whose image keeps its size, or of its data's gradient."""
    channels, filters, side = sizes
    taken = channels if family == "forward" else filters
    shapes = {"x": (batch, taken, side, side), "w": (filters, channels, 3, 3)}
    x, w = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            result = builder.emit_output(OPERATORS[family](x, w, padding=1))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps(convolution_rules())(builder.finalize())
    kernels = (f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc))
    return next(found for found in map(fused_product, kernels) if found)


def measured(
    name: str, family: str, machine: Machine, options: argparse.Namespace
) -> WinogradRow | None:
    """A shape's row; None where the form is none of it, as where its weights are too many.

    Raises:
        ValueError: the forms compute different values.
    """
    product = product_of(family, options.batch, SHAPES[name])
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    model, decisions = machine.telling({})
    write_product(product, model, CPU_LOOPS)
    if FORM not in decisions.made:
        return None
    forms = [_compiled(product, machine, form) for form in (DIRECT_FORM, WINOGRAD_FORM)]
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in each.shape] for each in product.parameters]
    image, weight = (
        tvm.runtime.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes[:2]
    )
    results = [tvm.runtime.tensor(np.zeros(shapes[2], np.float32)) for _ in forms]
    seconds: list[list[float]] = [[], []]
    flushed = np.zeros(_FLUSHED, np.uint8)
    for turn in range(1 + options.rounds):
        for form, result, samples in zip(forms, results, seconds, strict=True):
            flushed.copy()
            begin = clock()
            form["main"](image, weight, result)
            if turn:
                samples.append(clock() - begin)
    direct, winograd = (result.numpy() for result in results)
    if not np.abs(direct - winograd).max() <= _TOLERANCE * np.abs(direct).max():
        raise ValueError(f"{name}, {family}: the forms compute different values")
    is_taken = decisions.made[FORM].taken == WINOGRAD_FORM
    return WinogradRow(name, family, shapes, is_taken, *seconds)


def _compiled(
    product: FusedProduct, machine: Machine, form: tuple[int, ...]
) -> tvm.runtime.Executable:
    target = parse_target("host-cpu").to_tvm()
    with target:
        kernel = write_product(product, machine.telling({FORM: form})[0], CPU_LOOPS)
    return tvm.compile(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}), target)


def draw(found: Sequence[WinogradRow], title: str, path: Path) -> None:
    """Writes a bar for each convolution as SVG: how many times as fast Winograd's form is."""
    figure, (panel,) = panels(1, 1, (8, 1.2 + 0.25 * len(found)))
    every = [spread(row.ratios) for row in found]
    middle = [each.median for each in every]
    ends = [
        [each.median - each.lower for each in every],
        [each.upper - each.median for each in every],
    ]
    names = [f"{row.name} {row.family}{', taken' if row.is_taken else ''}" for row in found]
    bars = panel.barh(names, middle, xerr=ends)
    panel.bar_label(bars, fmt="%.2f", padding=6, fontsize=7)
    panel.set_xlabel("times as fast as the direct form: median and quartiles")
    panel.margins(x=0.12)
    panel.invert_yaxis()
    save_figure(figure, title, path)


def main() -> int:
    """Measures; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.winograd",
        description=(__doc__ or "").splitlines()[0],
        epilog=f"Shapes: {', '.join(SHAPES)}.",
    )
    parser.add_argument("--shapes", default="all", metavar="", help="joined by commas; all")
    parser.add_argument("--batch", type=positive, default=4, metavar="", help="images; 4")
    parser.add_argument("--rounds", type=positive, default=30, metavar="", help="of each; 30")
    parser.add_argument("--threads", type=positive, default=1, metavar="", help="1 by default")
    add_files(parser, "winograd", ["picture"])
    options = parser.parse_args()
    # Read when the first parallel kernel runs.
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    machine = machine_of(parse_target("host-cpu").resolved().vector_bits)
    wanted = [(n, f) for n in listed(options.shapes, [*SHAPES], "shape") for f in OPERATORS]
    rows = [
        measured(*each, machine, options)
        for each in track(wanted, "measuring", console=Console(stderr=True))
    ]
    found = [row for row in rows if row]
    table = numbers_table("convolution", "direct, ms", "winograd, ms", "times as fast", "taken")
    for row in found:
        times = [spread(each).text(scale=1e3) for each in (row.direct, row.winograd)]
        said = "yes" if row.is_taken else "no"
        table.add_row(f"{row.name} {row.family}", *times, spread(row.ratios).text(), said)
    said = about() | {"batch": options.batch, "threads": options.threads}
    console = terminal(140)
    title = introduce(console, said, f"batch {options.batch}, threads {options.threads}")
    console.print(table)
    write_json(said, "convolutions", found, options.json)
    draw(found, title, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
