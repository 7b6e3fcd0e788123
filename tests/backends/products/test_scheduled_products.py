"""A product with a tail that its loops cannot apply is scheduled as any other kernel."""

import time
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.relax import op

from odtc.autoschedule.table import schedule_passes
from odtc.backends.families import family_of
from odtc.backends.kernels.product.fused import fused_product
from odtc.backends.pipeline.phases import fuse_phase
from odtc.backends.targets import parse_target
from odtc.backends.vector_math import register_vector_math
from odtc.core.ir.kernel_marks import IS_SCHEDULED
from odtc.core.ir.product_marks import PRODUCT
from odtc.passes.contract import run_pipeline

ROWS, DEPTH, WIDTH = 37, 24, 40
# Of the processor's time: a tail that is applied again and again would take minutes.
SECONDS = 30

# From the builder, the product and another tensor [ROWS, WIDTH] to what is after the product.
Tail = Callable[[relax.BlockBuilder, relax.Expr, relax.Var], relax.Expr]


def widened(builder: relax.BlockBuilder, y: relax.Expr, other: relax.Var) -> relax.Expr:
    return op.multiply(builder.emit(op.tanh(y)), other)


def added(builder: relax.BlockBuilder, y: relax.Expr, other: relax.Var) -> relax.Expr:
    return op.add(y, other)


def gated(times: int) -> Tail:
    """Each `y * sigmoid(y)` reads the one before it twice."""

    def tail(builder: relax.BlockBuilder, y: relax.Expr, other: relax.Var) -> relax.Expr:
        for _ in range(times):
            y = builder.emit(op.multiply(y, builder.emit(op.sigmoid(y))))
        return y

    return tail


def gates(y: np.ndarray, times: int) -> np.ndarray:
    for _ in range(times):
        y = y / (1 + np.exp(-y))
    return y


def built(columns: int, tail: Tail, is_applied: bool) -> relax.VMExecutable:
    """A product and what is after it, which the product's loops apply or not."""
    shapes = {"a": (ROWS, DEPTH), "b": (DEPTH, columns), "other": (ROWS, WIDTH)}
    a, b, other = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [a, b, other]):
        with builder.dataflow():
            result = builder.emit_output(tail(builder, builder.emit(op.matmul(a, b)), other))
        builder.emit_func_output(result)
    register_vector_math()
    target = parse_target("host-cpu").resolved()
    with target.to_tvm():
        module = run_pipeline(fuse_phase(family_of(target)), builder.finalize())
        functions = [function for _, function in module.functions_items()]
        kernels = [each for each in functions if isinstance(each, tvm.tirx.PrimFunc)]
        # A tail whose expressions would multiply is cut: a part of it is kernels of its own.
        applied = all(bool(each.attrs) and IS_SCHEDULED in each.attrs for each in kernels)
        assert (len(kernels) == 1 and applied) == is_applied
        return tvm.compile(run_pipeline(schedule_passes(target), module), target.to_tvm())


@pytest.mark.timeout(10 * SECONDS)
@pytest.mark.parametrize(
    ("columns", "tail", "expected", "is_applied"),
    [
        (WIDTH, added, lambda y, other: y + other, True),
        (1, added, lambda y, other: y + other, False),
        (1, widened, lambda y, other: np.tanh(y) * other, False),
        (WIDTH, gated(2), lambda y, _: gates(y, 2), True),
        (WIDTH, gated(4), lambda y, _: gates(y, 4), False),
        (WIDTH, gated(5), lambda y, _: gates(y, 5), False),
        (WIDTH, gated(20), lambda y, _: gates(y, 20), False),
    ],
    ids=["added", "column-added", "column-widened", "2-gates", "4-gates", "5-gates", "20-gates"],
)
def test_values(columns: int, tail: Tail, expected: Callable, is_applied: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = [(ROWS, DEPTH), (DEPTH, columns), (ROWS, WIDTH)]
    a, b, other = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    start = time.process_time()
    vm = relax.VirtualMachine(built(columns, tail, is_applied), tvm.cpu())
    assert time.process_time() - start < SECONDS
    found = vm["main"](*map(tvm.runtime.tensor, (a, b, other))).numpy()
    wanted = expected(a.astype(np.float64) @ b, other)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "place", "is_tail"),
    [
        (8, lambda i, j: (i, j), True),
        (8, lambda i, j: (j, i), False),
        (8, lambda i, _: (i, 0), False),
        (5, lambda i, j: (i, j), False),
    ],
    ids=["in place", "turned", "one column", "some rows"],
)
def test_a_tail_reads_its_product_in_place(rows: int, place: Callable, is_tail: bool) -> None:
    a, b = (te.placeholder((8, 8), name=name) for name in "ab")
    k = te.reduce_axis((0, 8), "k")
    product = te.compute(
        (8, 8),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="product",
        attrs={PRODUCT: ["matmul", 0, 0]},
    )
    result = te.compute((rows, 8), lambda i, j: product[place(i, j)] * 2.0, name="result")
    found = fused_product(te.create_prim_func([a, b, result]))
    assert (found is not None) == is_tail
