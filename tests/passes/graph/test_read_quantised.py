"""Dequantisations of constants become one operator, and other chains of operators stay."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir.expr import GenericConst
from tvm.relax import op

from odtc.core.ir.relax_calls import is_call
from odtc.dialect.elements.dequantised import AS_IT_IS, NIBBLES, Codes, dequantised
from odtc.passes.graph.read_quantised import ReadQuantised
from odtc.passes.ir.bindings import bindings_of
from tests.host import loaded

RNG = np.random.default_rng(0)
BYTES = relax.const(RNG.integers(-100, 100, (6, 8)).astype(np.int8))
FEW = relax.const(RNG.integers(-8, 8, (6, 8)).astype(np.int8))
SCALE = relax.const(RNG.random((6, 1)).astype(np.float32))
ZERO = relax.const(RNG.integers(-3, 3, (6, 1)).astype(np.int8))
OF_BLOCKS = relax.const(RNG.random((6, 2, 1)).astype(np.float32))
OF_ELEMENTS = relax.const(RNG.random((6, 2, 4)).astype(np.float32))
IDS = relax.const(np.array([[4, 0, 4]]))
# From the emission of an expression to the floats.
Form = Callable[[Callable[[relax.Expr], relax.Expr]], relax.Expr]


def floats(table: relax.Expr) -> relax.Expr:
    return op.astype(table, "float32")


FORMS: dict[str, tuple[Form, Codes]] = {
    "rows": (lambda e: op.multiply(e(floats(BYTES)), SCALE), Codes(AS_IT_IS, (6, 8), (1, 1))),
    "the scale first": (
        lambda e: op.multiply(SCALE, e(floats(BYTES))),
        Codes(AS_IT_IS, (6, 8), (1, 1)),
    ),
    "zero points": (
        lambda e: op.multiply(e(op.subtract(e(floats(FEW)), e(floats(ZERO)))), SCALE),
        Codes(NIBBLES, (6, 8), (1, 1)),
    ),
    "zero points alone": (
        lambda e: op.subtract(e(floats(FEW)), e(floats(ZERO))),
        Codes(NIBBLES, (6, 8), (1, 1)),
    ),
    "blocks": (
        lambda e: op.reshape(
            e(op.multiply(e(floats(e(op.reshape(FEW, [6, 2, 4])))), OF_BLOCKS)), [6, 8]
        ),
        Codes(NIBBLES, (6, 8), (1, 4)),
    ),
    # It is that of the blocks as they lie apart, and what is joined of it is another tensor.
    "a scale for each element of a block": (
        lambda e: op.reshape(
            e(op.multiply(e(floats(e(op.reshape(FEW, [6, 2, 4])))), OF_ELEMENTS)), [6, 8]
        ),
        Codes(NIBBLES, (6, 2, 4), (1, 1, 1)),
    ),
    "rows of a table": (
        lambda e: op.multiply(e(floats(e(op.take(FEW, IDS, 0)))), e(op.take(SCALE, IDS, 0))),
        Codes(NIBBLES, (1, 3, 8), (1, 1, 1)),
    ),
    "rows of a table, reshaped": (
        lambda e: op.multiply(
            e(floats(e(op.reshape(e(op.take(FEW, IDS, 0)), [3, 8])))),
            e(op.reshape(e(op.take(SCALE, IDS, 0)), [3, 1])),
        ),
        Codes(NIBBLES, (3, 8), (1, 1)),
    ),
}
OTHERS: dict[str, Form] = {
    "a cast alone": lambda e: op.reshape(e(floats(FEW)), [8, 6]),
    "a sum": lambda e: op.add(e(floats(FEW)), SCALE),
    "a scale that is larger": lambda e: op.multiply(
        e(floats(relax.const(np.ones((1, 8), np.int8)))), SCALE
    ),
}


def module_of(form: Form) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    with builder.function("main", [relax.Var("x", relax.TensorType((1,), "float32"))]):
        with builder.dataflow():
            result = builder.emit_output(form(builder.emit))
        builder.emit_func_output(result)
    return builder.finalize()


def calls_in(module: tvm.IRModule) -> list[relax.Call]:
    """The calls of the operator."""
    values = (binding.value for binding in bindings_of(module["main"]))
    return [value for value in values if is_call(value, dequantised.name)]


def run(module: tvm.IRModule) -> np.ndarray:
    machine = relax.VirtualMachine(loaded(module), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(np.zeros(1, np.float32))).numpy()


@pytest.mark.parametrize("name", FORMS)
def test_forms_become_one_operator(name: str) -> None:
    form, codes = FORMS[name]
    before = module_of(form)
    after = ReadQuantised().run(before)
    (call,) = calls_in(after)
    assert dequantised.read(call) == codes
    np.testing.assert_array_equal(run(after), run(before))


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    assert calls_in(ReadQuantised().run(module_of(OTHERS[name]))) == []


def test_a_table_that_is_read_in_two_ways_is_packed_once() -> None:
    def form(emit: Callable[[relax.Expr], relax.Expr]) -> relax.Expr:
        row = FORMS["rows of a table, reshaped"][0](emit)
        return op.matmul(emit(row), emit(op.permute_dims(emit(FORMS["zero points"][0](emit)))))

    module = ReadQuantised().run(module_of(form))
    found: list[GenericConst] = []
    for binding in bindings_of(module["main"]):
        found += [each for each in getattr(binding.value, "args", ()) if _is_packed(each)]
    first, second = found
    assert first.same_as(second)


def _is_packed(operand: relax.Expr) -> bool:
    return isinstance(operand, GenericConst) and str(operand.ty.dtype) == "uint8"
