"""Constants are folded as by TVM's pass, and a kernel for it is built once in a process."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst

from odtc.passes.contract import run_pipeline
from odtc.passes.graph import fold_constants
from odtc.passes.graph.fold_constants import FoldConstants


def module(value: float, size: int = 7) -> tvm.IRModule:
    """`x + exp(c)`, of which the second term is constant."""
    x = relax.Var("x", relax.TensorType((size,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            known = builder.emit(relax.op.exp(relax.const(np.full(size, value, np.float32))))
            result = builder.emit_output(relax.op.add(x, known))
        builder.emit_func_output(result)
    return relax.transform.LegalizeOps()(builder.finalize())


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the modules that are built for the first time meanwhile."""
    texts: list[str] = []
    made = fold_constants._built.__wrapped__

    @fold_constants.lru_cache(8)
    def counted(asked: fold_constants._Asked):
        texts.append(asked.text)
        return made(asked)

    monkeypatch.setattr(fold_constants, "_built", counted)
    return texts


def test_it_is_what_tvm_folds(built: list[str]) -> None:
    given = module(0.5)
    found = run_pipeline([FoldConstants()], given)
    tvm.ir.assert_structural_equal(found, relax.transform.FoldConstant()(given), map_free_vars=True)
    (constant,) = constants_of(found)
    np.testing.assert_array_equal(constant, np.exp(np.full(7, 0.5, np.float32)))


def constants_of(found: tvm.IRModule) -> list[np.ndarray]:
    values: list[np.ndarray] = []

    def visit(each: object) -> None:
        if isinstance(each, GenericConst):
            values.append(each.value.numpy())

    relax.analysis.post_order_visit(found["main"], visit)
    return values


def test_a_kernel_is_built_once_for_all_values(built: list[str]) -> None:
    for value in (0.5, 2.0):
        (constant,) = constants_of(run_pipeline([FoldConstants()], module(value)))
        np.testing.assert_allclose(constant, np.exp(np.full(7, value, np.float32)), rtol=1e-6)
    assert len(built) == 1
    run_pipeline([FoldConstants()], module(0.5, size=8))
    assert len(built) == 2


def test_what_else_is_built_is_not_remembered(built: list[str]) -> None:
    run_pipeline([FoldConstants()], module(0.5))
    kernels = (f for f in module(0.5).functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    kernel = next(kernels).with_attr("global_symbol", "main")
    build = tvm.get_global_func("tirx.build")
    first, second = (build(kernel, tvm.target.Target({"kind": "llvm"})) for _ in range(2))
    assert not first.same_as(second)
    assert len(built) == 1


@pytest.mark.parametrize(("size", "stays"), [(4096, True), (4095, False)])
def test_quantised_weights_stay_integers(size: int, stays: bool) -> None:
    """As floats they would take four times the bytes."""
    x = relax.Var("x", relax.TensorType((size,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            weights = relax.const(np.arange(size).astype(np.int8))
            floats = builder.emit(relax.op.astype(weights, "float32"))
            result = builder.emit_output(relax.op.add(x, floats))
        builder.emit_func_output(result)
    given = relax.transform.LegalizeOps()(builder.finalize())
    (constant,) = constants_of(run_pipeline([FoldConstants()], given))
    assert (constant.dtype == np.int8) == stays
