"""What a step of a sum costs in each tile: products of packed matrices, counted in the emulator."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import tvm
from tvm import relax, tirx

from benchmarks.arm.cores import Core
from benchmarks.arm.fit.kernels import counted
from odtc.backends.counted_tiles import NOT_COUNTED
from odtc.backends.decisions import Choice, Decision
from odtc.backends.families import family_of
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.kernels.product.tile import Machine
from odtc.backends.pipeline.phases import fuse_phase
from odtc.backends.targets import Target, parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.backends.write_products import write_product
from odtc.passes.contract import run_pipeline

# Sizes that many tiles divide; a panel of all terms is near a small core.
_ROWS, _COLUMNS = 120, 192
_TERMS = (128, 256)

# Rows and vectors.
Shape = tuple[int, int]


def shapes_of(target: str) -> list[Shape]:
    """The tiles that are likely by the model of the target's machine, without counts."""
    resolved = parse_target(target).resolved()
    few, many = (
        _written(resolved, _product(resolved, terms), {})[1]["tile"].candidates for terms in _TERMS
    )
    return [(rows, vectors) for rows, vectors in few if (rows, vectors) in many]


def cycles_of_tiles(
    target: str, shapes: Sequence[Shape], core: Core, folder: Path
) -> dict[Shape, float]:
    """Modelled cycles of a step of the sum on a core.

    Those of many terms less those of few, so that what begins and ends a tile is not in them.

    Args:
        target: that is compiled for.
        shapes: of tiles, of `shapes_of`.
        core: that they are counted on.
        folder: an empty one.

    Raises:
        BuildError: the emulator is not installed, or a kernel failed.
    """
    resolved = parse_target(target).resolved()
    products = [_product(resolved, terms) for terms in _TERMS]
    kernels = [
        _written(resolved, product, {"tile": shape})[0] for shape in shapes for product in products
    ]
    found = [figures.pipeline for (figures,) in counted(kernels, target, [core], folder)]
    return {
        (rows, vectors): (long - short) / _steps(rows, vectors)
        for (rows, vectors), short, long in zip(shapes, found[::2], found[1::2], strict=True)
    }


def _steps(rows: int, vectors: int) -> int:
    """Steps of all tiles that one kernel takes more than the other."""
    return -(-_ROWS // rows) * -(-_COLUMNS // (4 * vectors)) * (_TERMS[1] - _TERMS[0])


def _written(
    target: Target, kernel: tirx.PrimFunc, choice: Choice
) -> tuple[tirx.PrimFunc, Mapping[str, Decision]]:
    """A kernel and its decisions, likely candidates being those of the model without counts."""
    products, product = family_of(target).products, fused_product(kernel)
    assert product
    assert isinstance(products.machine, Machine)
    machine, decisions = replace(products.machine, counted=NOT_COUNTED).telling(choice)
    with target.to_tvm():
        return write_product(product, machine, products.loops), decisions.made


def _product(target: Target, terms: int) -> tirx.PrimFunc:
    """A product of two matrices, without loops."""
    register_vector_math()
    left = relax.Var("left", relax.TensorType((_ROWS, terms), "float32"))
    right = relax.Var("right", relax.TensorType((terms, _COLUMNS), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.matmul(left, right))
        builder.emit_func_output(result)
    with target.to_tvm():
        module: tvm.IRModule = run_pipeline(fuse_phase(family_of(target))[:-1], builder.finalize())
    functions = (f for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc))
    (kernel,) = (each for each in functions if fused_product(each))
    return kernel
