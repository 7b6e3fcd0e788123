"""Operators fused after a product are applied as the product stores its results."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax, te
from tvm.relax import op
from tvm.relax import transform as X  # noqa: N812

from odtc.backends.family.cpu import CPU_LOOPS
from odtc.backends.kernels.convolution.rules import convolution_rules
from odtc.backends.kernels.product.matmul import matmul
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.write_products import WriteProducts
from odtc.core.ir.kernel_marks import IS_SCHEDULED
from odtc.core.ir.product_marks import PRODUCT
from odtc.passes.graph.absorb_transpose import AbsorbTranspose
from tests.fast import examples
from tests.host import loaded

MACHINES = [machine_of(bits) for bits in (128, 256, 512)]

Build = Callable[[relax.BlockBuilder, relax.Expr, list[relax.Var]], relax.Expr]


def bias_relu(builder: relax.BlockBuilder, y: relax.Expr, others: list[relax.Var]) -> relax.Expr:
    bias = builder.emit(op.reshape(others[0], (1, -1, 1, 1)))
    return op.nn.relu(builder.emit(op.add(y, bias)))


def residual(builder: relax.BlockBuilder, y: relax.Expr, others: list[relax.Var]) -> relax.Expr:
    return op.nn.relu(builder.emit(op.add(y, others[1])))


def mask(builder: relax.BlockBuilder, y: relax.Expr, others: list[relax.Var]) -> relax.Expr:
    positive = builder.emit(op.greater(others[1], relax.const(0.0)))
    return op.where(positive, y, relax.const(0.0))


def gate(builder: relax.BlockBuilder, y: relax.Expr, _: list[relax.Var]) -> relax.Expr:
    return op.multiply(y, builder.emit(op.sigmoid(y)))


TAILS: dict[str, Build] = {
    "bias-relu": bias_relu,
    "residual": residual,
    "mask": mask,
    "gate": gate,
}


@dataclass(frozen=True)
class Form:
    """A convolution to nineteen channels, or the gradient of its data."""

    channels: int
    kernel: int = 1
    stride: int = 1
    is_gradient: bool = False

    def of(self, x: relax.Expr, w: relax.Expr) -> relax.Expr:
        if self.is_gradient:
            pad, behind = self.kernel // 2, self.stride - 1
            return op.nn.conv2d_transpose(
                x, w, padding=pad, strides=self.stride, output_padding=behind
            )
        return op.nn.conv2d(x, w, padding=self.kernel // 2, strides=self.stride)


FORMS = {
    "3x3": Form(5, kernel=3),
    "few points": Form(5),
    "points": Form(20),
    "apart": Form(20, stride=2),
    "gradient": Form(20, is_gradient=True),
    "gradient of 3x3": Form(20, kernel=3, is_gradient=True),
    "gradient apart": Form(20, stride=2, is_gradient=True),
}


def conv_module(size: int, tail: Build, form: Form) -> tvm.IRModule:
    ends = (form.channels, 19) if form.is_gradient else (19, form.channels)
    out = size * form.stride if form.is_gradient else -(-size // form.stride)
    shapes = {
        "x": (2, form.channels, size, size),
        "w": (*ends, form.kernel, form.kernel),
        "bias": (19,),
        "other": (2, 19, out, out),
    }
    x, w, *others = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, *others]):
        with builder.dataflow():
            y = builder.emit(form.of(x, w))
            result = builder.emit_output(tail(builder, y, others))
        builder.emit_func_output(result)
    return builder.finalize()


def fused(module: tvm.IRModule, machine: Machine) -> tvm.IRModule:
    for step in (
        X.LegalizeOps(convolution_rules()),
        X.AnnotateTIROpPattern(),
        X.FuseOps(),
        X.FuseTIR(),
        X.DeadCodeElimination(),
    ):
        module = step(module)
    return WriteProducts(machine, CPU_LOOPS).run(module)


def run(module: tvm.IRModule, arrays: list[np.ndarray]) -> np.ndarray:
    executable = loaded(module)
    vm = relax.VirtualMachine(executable, tvm.cpu())
    return vm["main"](*(tvm.runtime.tensor(array) for array in arrays)).numpy()


def arrays_for(module: tvm.IRModule) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [[int(size) for size in p.ty.shape] for p in module["main"].params]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [4, 13])
@pytest.mark.parametrize("name", TAILS)
def test_a_tail_is_part_of_the_product(name: str, size: int, form: str) -> None:
    module = conv_module(size, TAILS[name], FORMS[form])
    arrays = arrays_for(module)
    expected = run(module, arrays)
    for machine in MACHINES:
        written = fused(module, machine)
        kernels = {v.name_hint: f for v, f in written.functions_items() if v.name_hint != "main"}
        (product,) = (f for n, f in kernels.items() if "conv" in n or "gradient" in n)
        assert product.attrs[IS_SCHEDULED]
        np.testing.assert_allclose(run(written, arrays), expected, rtol=1e-4, atol=1e-4)


def test_a_tail_that_broadcasts_the_product_is_scheduled_as_any_kernel() -> None:
    def spread(builder: relax.BlockBuilder, y: relax.Expr, others: list[relax.Var]) -> relax.Expr:
        return op.multiply(y, others[1])

    shapes = {"x": (2, 5, 1, 1), "w": (19, 5, 1, 1), "bias": (19,), "other": (2, 19, 4, 4)}
    x, w, *others = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, *others]):
        with builder.dataflow():
            y = builder.emit(op.nn.conv2d(x, w))
            result = builder.emit_output(spread(builder, y, others))
        builder.emit_func_output(result)
    module = builder.finalize()
    arrays = arrays_for(module)
    written = fused(module, MACHINES[0])
    np.testing.assert_allclose(run(written, arrays), run(module, arrays), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.lanes}-lanes")
def test_a_tail_reads_all_but_the_product_anywhere(machine: Machine) -> None:
    """Numbers of rows in the shape of a column, and such at places that are read."""
    a, b = (te.placeholder((40, 40), name=name) for name in "ab")
    numbers, order = te.placeholder((40,), name="c"), te.placeholder((40,), "int64", "order")
    k = te.reduce_axis((0, 40), "k")
    product = te.compute(
        (40, 40),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="product",
        attrs={PRODUCT: ["matmul", 0, 0]},
    )
    negative = te.compute((40,), lambda i: -numbers[i], name="negative")
    column = te.compute((40, 1), lambda i, _: negative[i], name="column")
    total = te.compute((40, 40), lambda i, j: product[i, j] + column[i, 0], name="total")
    result = te.compute((40, 40), lambda i, j: total[i, j] * column[order[j], 0], name="result")
    kernel = te.create_prim_func([a, b, numbers, order, result])
    module = WriteProducts(machine, CPU_LOOPS).run(tvm.IRModule({"main": kernel}))
    assert module["main"].attrs[IS_SCHEDULED]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 40, 40)).astype(np.float32)
    z, at = rng.standard_normal(40).astype(np.float32), rng.permutation(40)
    found = tvm.runtime.empty((40, 40))
    module["main"] = module["main"].with_attr("global_symbol", "main")
    executable = loaded(module)
    executable["main"](*map(tvm.runtime.tensor, (x, y, z, at)), found)
    wanted = (x @ y - z[:, None]) * -z[at]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_tail_is_part_of_a_thin_product(rows: int) -> None:
    """As in the gradient of a large layer's data in a small batch."""
    shapes = {"x": (rows, 131), "w": (131, 1100), "bias": (1100,), "other": (rows, 1100)}
    x, w, *others = (relax.Var(n, relax.TensorType(s, "float32")) for n, s in shapes.items())
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, *others]):
        with builder.dataflow():
            y = builder.emit(op.add(builder.emit(op.matmul(x, w)), others[0]))
            result = builder.emit_output(mask(builder, y, others))
        builder.emit_func_output(result)
    module = builder.finalize()
    arrays = arrays_for(module)
    a, b, bias, other = arrays
    expected = np.where(other > 0, a.astype(np.float64) @ b + bias, 0)
    for machine in MACHINES:
        written = fused(AbsorbTranspose(matmul).run(module), machine)
        (product,) = (f for v, f in written.functions_items() if "matmul" in v.name_hint)
        assert product.attrs[IS_SCHEDULED]
        np.testing.assert_allclose(run(written, arrays), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: f"{machine.lanes}-lanes")
@settings(max_examples=examples(8), deadline=None)
@given(
    sizes=st.tuples(*[st.integers(1, 70)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
    batch=st.sampled_from([(), (3,), (2, 3)]),
)
# Rows of the left operand, or of the right one, that fall into the same lines of a cache.
@example(sizes=(33, 1024, 20), transposed=(False, False), batch=())
@example(sizes=(33, 7, 1024), transposed=(False, False), batch=())
# Rows that make transposed panels of the right operand cheap, full and short, and a long pitch.
@example(sizes=(100, 33, 70), transposed=(False, True), batch=(3,))
@example(sizes=(100, 33, 10), transposed=(False, True), batch=())
@example(sizes=(9, 20, 1024), transposed=(False, True), batch=())
# Few rows, and more columns than fit a cache: one at a time, in vectors, and with a rest of terms.
@example(sizes=(5, 20, 1024), transposed=(False, True), batch=())
@example(sizes=(3, 131, 1100), transposed=(False, False), batch=())
@example(sizes=(8, 132, 1024), transposed=(True, False), batch=(2,))
def test_matrix_products(
    machine: Machine,
    sizes: tuple[int, int, int],
    transposed: tuple[bool, bool],
    batch: tuple[int, ...],
) -> None:
    rows, depth, columns = sizes
    shapes = [(rows, depth), (depth, columns)]
    stored = [(*batch, *(s[::-1] if t else s)) for s, t in zip(shapes, transposed, strict=True)]
    swapped = [*range(len(batch)), len(batch) + 1, len(batch)]
    left, right = (
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in zip("ab", stored, strict=True)
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [left, right]):
        with builder.dataflow():
            a, b = (
                builder.emit(op.permute_dims(v, swapped)) if t else v
                for v, t in zip((left, right), transposed, strict=True)
            )
            result = builder.emit_output(op.matmul(a, b))
        builder.emit_func_output(result)
    module = WriteProducts(machine, CPU_LOOPS).run(AbsorbTranspose(matmul).run(builder.finalize()))
    assert "permute_dims" not in module["main"].script()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in stored]
    a, b = (x.swapaxes(-1, -2) if t else x for x, t in zip(arrays, transposed, strict=True))
    expected = a.astype(np.float64) @ b
    np.testing.assert_allclose(run(module, arrays), expected, rtol=1e-4, atol=1e-4)
