"""Elementwise operators move in front of the reshape of a product, and results stay the same."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.backward.on_rows import on_rows
from tests.fast import examples
from tests.host import loaded

BATCH, LENGTH, DEPTH, WIDTH = 2, 5, 8, 6
FULL = (BATCH, LENGTH, WIDTH)
# What stands beside a product, and whether that has a form on rows.
OPERANDS = {
    FULL: True,
    (WIDTH,): True,
    (1, 1, WIDTH): True,
    (): True,
    (1, 1, 1): True,
    (LENGTH, WIDTH): False,
    (BATCH, 1, WIDTH): False,
    (BATCH, LENGTH, 1): False,
}
UNARY: dict[str, tuple[Callable, Callable]] = {
    "negative": (R.negative, np.negative),
    "tanh": (R.tanh, np.tanh),
    "relu": (R.nn.relu, lambda x: np.maximum(x, 0)),
}
BINARY: dict[str, tuple[Callable, Callable]] = {
    "add": (R.add, np.add),
    "subtract": (R.subtract, np.subtract),
    "multiply": (R.multiply, np.multiply),
}
STEPS = st.one_of(
    st.sampled_from(sorted(UNARY)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.sampled_from(list(OPERANDS)), st.booleans()),
)
Step = str | tuple[str, tuple[int, ...], bool]


def chain(steps: list[Step]) -> tuple[tvm.IRModule, list[np.ndarray], np.ndarray]:
    """A product of rows and a chain after it, its arguments, and the result in numpy."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in ((BATCH, LENGTH, DEPTH), (DEPTH, WIDTH))]
    expected = arrays[0] @ arrays[1]
    arrays += [rng.standard_normal(step[1]) for step in steps if not isinstance(step, str)]
    arrays += [rng.standard_normal((WIDTH, WIDTH))]
    x, w, *others = (
        relax.Var(f"p{i}", relax.TensorType(each.shape, "float32")) for i, each in enumerate(arrays)
    )
    values, beside = iter(arrays[2:]), iter(others)
    builder = relax.BlockBuilder()
    with builder.function("forward", [x, w, *others]):
        with builder.dataflow():
            rows = builder.emit(R.matmul(builder.emit(R.reshape(x, (BATCH * LENGTH, DEPTH))), w))
            y = builder.emit(R.reshape(rows, FULL))
            for step in steps:
                if isinstance(step, str):
                    relax_op, numpy_op = UNARY[step]
                    y, expected = builder.emit(relax_op(y)), numpy_op(expected)
                    continue
                (relax_op, numpy_op), turned = BINARY[step[0]], step[2]
                pair, numbers = (y, next(beside)), (expected, next(values))
                y = builder.emit(relax_op(*(pair[::-1] if turned else pair)))
                expected = numpy_op(*(numbers[::-1] if turned else numbers))
            # As the next layer begins.
            y = builder.emit(R.reshape(y, (BATCH * LENGTH, WIDTH)))
            result = builder.emit_output(R.matmul(y, others[-1]))
        builder.emit_func_output(result)
    expected = expected.reshape(-1, WIDTH) @ arrays[-1]
    return builder.finalize(), [each.astype(np.float32) for each in arrays], expected


def operators(module: tvm.IRModule) -> list[str]:
    (block,) = module["forward"].body.blocks
    values = [binding.value for binding in block.bindings]
    return [value.op.name.split(".")[-1] for value in values if isinstance(value, relax.Call)]


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(STEPS, max_size=5))
def test_results_stay_the_same(steps: list[Step]) -> None:
    module, arrays, expected = chain(steps)
    moved = on_rows(module, "forward")
    executable = loaded(moved)
    found = relax.VirtualMachine(executable, tvm.cpu())["forward"](*map(tvm.runtime.tensor, arrays))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("shape", "has_form"), OPERANDS.items())
def test_what_has_a_form_on_rows_is_right_behind_the_product(
    shape: tuple[int, ...], has_form: bool
) -> None:
    module, _, _ = chain(["tanh", ("add", shape, False), "negative"])
    names = operators(on_rows(module, "forward"))
    rest = names[names.index("matmul") :]
    without_views = [name for name in rest if name != "reshape"]
    assert without_views == ["matmul", "tanh", "add", "negative", "matmul"]
    assert rest[:2] == ["matmul", "tanh"]
    # Only the operand is reshaped, or else the tensor in between, there and back.
    made = [n for n in names[1:] if n == "reshape"]
    assert len(made) == (int(len(shape) > 1) if has_form else 2), names
