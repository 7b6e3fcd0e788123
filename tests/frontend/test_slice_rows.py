"""Slices move in front of products of rows, where nothing in the function reads other rows."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.relax_calls import operator_of
from odtc.frontend.patterns.slice_rows import slice_rows
from tests.host import loaded

BATCH, LENGTH, DEPTH, WIDTH = 2, 5, 3, 4
Make = Callable[[relax.BlockBuilder, relax.Expr, relax.Expr, relax.Expr], list[relax.Expr]]


def module_of(make: Make) -> tvm.IRModule:
    """The function of a product of rows, `[2, 5, 4]`, and a bias."""
    x, w, bias = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (
            ("x", (BATCH, LENGTH, DEPTH)),
            ("w", (DEPTH, WIDTH)),
            ("b", (WIDTH,)),
        )
    )
    builder = relax.BlockBuilder()
    with builder.function("forward", [x, w, bias]):
        with builder.dataflow():
            rows = builder.emit(R.reshape(x, (BATCH * LENGTH, DEPTH)))
            product = builder.emit(R.matmul(rows, w))
            results = make(builder, product, bias, w)
            given = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(given)
    return builder.finalize()


def shaped(builder: relax.BlockBuilder, rows: relax.Expr) -> relax.Var:
    return builder.emit(R.reshape(rows, (BATCH, LENGTH, WIDTH)))


def plain(builder, product, *_) -> list[relax.Expr]:
    return [builder.emit(R.strided_slice(shaped(builder, product), [1], [0], [LENGTH - 1]))]


def with_bias_and_cap(builder, product, bias, _) -> list[relax.Expr]:
    capped = builder.emit(R.tanh(builder.emit(R.add(product, bias))))
    given = shaped(builder, builder.emit(R.multiply(capped, relax.const(3.0))))
    return [builder.emit(R.strided_slice(given, [0, 1], [1, 1], [2, LENGTH], [1, 2]))]


def whole_as_well(builder, product, *_) -> list[relax.Expr]:
    given = shaped(builder, product)
    return [builder.emit(R.strided_slice(given, [1], [1], [LENGTH])), given]


def of_columns(builder, product, *_) -> list[relax.Expr]:
    return [builder.emit(R.strided_slice(shaped(builder, product), [2], [1], [WIDTH]))]


def read_elsewhere(builder, product, *_) -> list[relax.Expr]:
    given = shaped(builder, product)
    total = builder.emit(R.sum(given))
    return [builder.emit(R.strided_slice(given, [1], [1], [LENGTH])), total]


@pytest.mark.parametrize(
    ("make", "moves"),
    [
        (plain, True),
        (with_bias_and_cap, True),
        (whole_as_well, True),
        (of_columns, False),
        (read_elsewhere, False),
    ],
)
def test_results_stay(make: Make, moves: bool) -> None:
    before = module_of(make)
    after = slice_rows(before, "forward")
    (block,) = after["forward"].body.blocks
    sliced = [b.value for b in block.bindings if operator_of(b.value) == "relax.strided_slice"]
    assert [int(each.args[0].ty.shape[2]) for each in sliced] == [DEPTH if moves else WIDTH]
    rng = np.random.default_rng(0)
    arrays = [
        tvm.runtime.tensor(rng.standard_normal([int(s) for s in each.ty.shape]).astype("float32"))
        for each in before["forward"].params
    ]
    found = []
    for module in (before, after):
        machine = relax.VirtualMachine(loaded(relax.transform.LegalizeOps()(module)), tvm.cpu())
        found.append([each.numpy() for each in machine["forward"](*arrays)])
    for old, new in zip(*found, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6)
