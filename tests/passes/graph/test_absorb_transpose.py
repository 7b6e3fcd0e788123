"""Transposes disappear into matrix products, and the products stay right."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax import op

from odtc.backends.kernels.product.matmul import matmul
from odtc.passes.graph.absorb_transpose import AbsorbTranspose
from tests.host import loaded

PASS = AbsorbTranspose(matmul)

FORMS: dict[str, Callable[..., relax.Expr]] = {
    "nn": op.matmul,
    "nt": lambda a, b: op.matmul(a, op.permute_dims(b)),
    "tn": lambda a, b: op.matmul(op.permute_dims(a), b),
    "tt": lambda a, b: op.matmul(op.permute_dims(a), op.permute_dims(b)),
    "product": lambda a, b: op.permute_dims(op.matmul(a, b)),
    "twice": lambda a, b: op.matmul(op.permute_dims(op.permute_dims(a)), b),
    "all": lambda a, b: op.permute_dims(op.matmul(op.permute_dims(a), op.permute_dims(b))),
}
FORMS["many"] = lambda a, b: op.matmul(op.permute_dims(a, [0, 2, 1]), b)
FORMS["many products"] = lambda a, b: op.permute_dims(op.matmul(a, b), [0, 2, 1])
SHAPES = {
    "nn": ((3, 4), (4, 5)),
    "nt": ((3, 4), (5, 4)),
    "tn": ((4, 3), (4, 5)),
    "tt": ((4, 3), (5, 4)),
    "product": ((3, 4), (4, 5)),
    "twice": ((3, 4), (4, 5)),
    "all": ((4, 3), (5, 4)),
    "many": ((2, 4, 3), (2, 4, 5)),
    "many products": ((2, 3, 4), (2, 4, 5)),
}


def module_of(form: str) -> tvm.IRModule:
    left, right = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in zip("ab", SHAPES[form], strict=True)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            result = builder.emit_output(FORMS[form](left, right))
        builder.emit_func_output(result)
    return builder.finalize()


def run(module: tvm.IRModule, *arrays: np.ndarray) -> np.ndarray:
    executable = loaded(module)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(array) for array in arrays)).numpy()


@pytest.mark.parametrize("form", FORMS)
def test_values_stay_and_transposes_go(form: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[form]]
    before = module_of(form)
    after = PASS.run(before)
    np.testing.assert_allclose(run(after, *arrays), run(before, *arrays), rtol=1e-5, atol=1e-6)
    assert "permute_dims" not in after["main"].script()


def after_the_pass(shapes: Sequence[Sequence[int]], form: Callable[..., relax.Expr]) -> str:
    """The text of what the pass makes of a form, whose values stay."""
    left, right = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in zip("ab", shapes, strict=True)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            result = builder.emit_output(form(left, right))
        builder.emit_func_output(result)
    module = builder.finalize()
    after = PASS.run(module)
    arrays = [np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in shapes]
    np.testing.assert_allclose(run(after, *arrays), run(module, *arrays), rtol=1e-5, atol=1e-6)
    return after["main"].script()


def test_other_transposes_stay() -> None:
    text = after_the_pass(
        [(3, 3, 4), (3, 3, 4)],
        lambda a, b: op.matmul(op.permute_dims(a, [1, 0, 2]), op.permute_dims(b, [0, 2, 1])),
    )
    assert text.count("permute_dims") == 1


def test_a_transpose_that_also_moves_matrices_stays() -> None:
    text = after_the_pass(
        [(3, 3, 4, 2), (3, 3, 4, 5)], lambda a, b: op.matmul(op.permute_dims(a, [1, 0, 3, 2]), b)
    )
    assert text.count("permute_dims") == 1


def test_products_that_broadcast_stay() -> None:
    text = after_the_pass([(2, 3, 4), (1, 4, 5)], op.matmul)
    assert "R.matmul" in text


def test_products_whose_operands_are_alike_are_one_kernel_that_is_made_once() -> None:
    left, right = (relax.Var(name, relax.TensorType((4, 4), "float32")) for name in "ab")
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            result: relax.Expr = left
            for _ in range(3):
                result = builder.emit(op.matmul(result, right))
                result = builder.emit(op.matmul(result, op.permute_dims(right)))
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    made: list[tuple[bool, bool]] = []

    def product(a: relax.Expr, b: relax.Expr, trans_a: bool, trans_b: bool) -> tirx.PrimFunc:
        made.append((trans_a, trans_b))
        return matmul(a, b, trans_a, trans_b)

    module = AbsorbTranspose(product).run(builder.finalize())
    assert made == [(False, False), (False, True)]
    names = {each.name_hint for each in module.get_global_vars()}
    assert names == {"main", "matmul", "matmul1"}
    a, b = np.random.default_rng(0).standard_normal((2, 4, 4), np.float32)
    wanted = a @ np.linalg.matrix_power(b @ b.T, 3)
    np.testing.assert_allclose(run(module, a, b), wanted, rtol=1e-3, atol=1e-3)
