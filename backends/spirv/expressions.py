"""Translates TIR expressions, one table row for each kind of node; calls are in `intrinsics.py`.

Comparisons are as in C: with a NaN only `!=` holds. The larger of two floats is what OpenCL says:
the second one if the first is less than it, so that a NaN in front stays one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir

from odtc.backends.spirv.body import Value
from odtc.backends.spirv.conversions import cast
from odtc.backends.spirv.interface import is_vector_of_floats, load_vector
from odtc.backends.spirv.intrinsics import call
from odtc.backends.spirv.kernel import KernelWriter
from odtc.backends.spirv.memory.shared import (
    are_whole_vectors,
    elements,
    is_vector_of_halves,
    load_vectors,
)
from odtc.backends.spirv.opcodes import Glsl, Op, StorageClass
from odtc.backends.spirv.types import BOOL, FLOAT32, ScalarKind

Translate = Callable[[KernelWriter, Any], Value]


@dataclass(frozen=True)
class ByKind:
    """The instructions of an operator, by the kind of its operands."""

    floats: Op | None
    signed: Op | None
    unsigned: Op | None
    bools: Op | None = None

    def op(self, kernel: KernelWriter, kind: ScalarKind) -> Op:
        """Returns the opcode for a kind of number."""
        columns = {"float": self.floats, "int": self.signed, "uint": self.unsigned}
        found = columns.get(kind.code, self.bools)
        if found is None:
            raise kernel.unknown(f"such an operator of {kind.code}s")
        return found


_ARITHMETIC = {
    "Add": ByKind(Op.F_ADD, Op.I_ADD, Op.I_ADD),
    "Sub": ByKind(Op.F_SUB, Op.I_SUB, Op.I_SUB),
    "Mul": ByKind(Op.F_MUL, Op.I_MUL, Op.I_MUL),
    "Div": ByKind(Op.F_DIV, Op.S_DIV, Op.U_DIV),
    "LShift": ByKind(None, Op.SHIFT_LEFT_LOGICAL, Op.SHIFT_LEFT_LOGICAL),
    "RShift": ByKind(None, Op.SHIFT_RIGHT_ARITHMETIC, Op.SHIFT_RIGHT_LOGICAL),
    "BitwiseAnd": ByKind(None, Op.BITWISE_AND, Op.BITWISE_AND, Op.LOGICAL_AND),
    "BitwiseOr": ByKind(None, Op.BITWISE_OR, Op.BITWISE_OR, Op.LOGICAL_OR),
    "BitwiseXor": ByKind(None, Op.BITWISE_XOR, Op.BITWISE_XOR, Op.LOGICAL_NOT_EQUAL),
}

_COMPARISONS = {
    "EQ": ByKind(Op.F_ORD_EQUAL, Op.I_EQUAL, Op.I_EQUAL, Op.LOGICAL_EQUAL),
    "NE": ByKind(Op.F_UNORD_NOT_EQUAL, Op.I_NOT_EQUAL, Op.I_NOT_EQUAL, Op.LOGICAL_NOT_EQUAL),
    "LT": ByKind(Op.F_ORD_LESS_THAN, Op.S_LESS_THAN, Op.U_LESS_THAN),
    "LE": ByKind(Op.F_ORD_LESS_THAN_EQUAL, Op.S_LESS_THAN_EQUAL, Op.U_LESS_THAN_EQUAL),
    "GT": ByKind(Op.F_ORD_GREATER_THAN, Op.S_GREATER_THAN, Op.U_GREATER_THAN),
    "GE": ByKind(Op.F_ORD_GREATER_THAN_EQUAL, Op.S_GREATER_THAN_EQUAL, Op.U_GREATER_THAN_EQUAL),
}

# With and without a sign.
_EXTREMA = {"Min": (Glsl.S_MIN, Glsl.U_MIN), "Max": (Glsl.S_MAX, Glsl.U_MAX)}


def _lanes_of(kernel: KernelWriter, node: Any) -> list[tuple[int, int]]:
    """The operands of a node, lane by lane."""
    return list(zip(kernel.value(node.a), kernel.value(node.b), strict=True))


def _arithmetic(table: ByKind) -> Translate:
    def translate(kernel: KernelWriter, node: Any) -> Value:
        kind = kernel.kind(node)
        op = table.op(kernel, kind)
        return tuple(kernel.compute(op, kind, a, b) for a, b in _lanes_of(kernel, node))

    return translate


def _comparison(table: ByKind) -> Translate:
    def translate(kernel: KernelWriter, node: Any) -> Value:
        kind = kernel.kind(node.a)
        kernel.types.computed(kind)
        op = table.op(kernel, kind)
        return tuple(kernel.compute(op, BOOL, a, b) for a, b in _lanes_of(kernel, node))

    return translate


def _extremum(name: str) -> Translate:
    signed, unsigned = _EXTREMA[name]

    def one(kernel: KernelWriter, kind: ScalarKind, a: int, b: int) -> int:
        if kind.is_integer:
            return kernel.extended(signed if kind.code == "int" else unsigned, kind, a, b)
        pair = (a, b) if name == "Max" else (b, a)
        less = kernel.compute(Op.F_ORD_LESS_THAN, BOOL, *pair)
        return kernel.compute(Op.SELECT, kind, less, b, a)

    def translate(kernel: KernelWriter, node: Any) -> Value:
        kind = kernel.kind(node)
        return tuple(one(kernel, kind, a, b) for a, b in _lanes_of(kernel, node))

    return translate


def _remainder(kernel: KernelWriter, node: Any) -> Value:
    """Emits a remainder with the dividend's sign; SPIR-V's is undefined for negative numbers."""
    kind = kernel.kind(node)
    own = {"float": Op.F_REM, "uint": Op.U_MOD}.get(kind.code)

    def one(a: int, b: int) -> int:
        if own is not None:
            return kernel.compute(own, kind, a, b)
        quotient = kernel.compute(Op.S_DIV, kind, a, b)
        return kernel.compute(Op.I_SUB, kind, a, kernel.compute(Op.I_MUL, kind, quotient, b))

    return tuple(one(a, b) for a, b in _lanes_of(kernel, node))


def _logical(op: Op) -> Translate:
    def translate(kernel: KernelWriter, node: Any) -> Value:
        """Skips what reads memory on the right where the left operand decides, as in C."""
        left, *more = kernel.value(node.a)
        if more or not _reads(node.b):
            pairs = zip((left, *more), kernel.value(node.b), strict=True)
            return tuple(kernel.compute(op, BOOL, a, b) for a, b in pairs)
        decided = (kernel.constant(BOOL, op is Op.LOGICAL_OR),)
        arms = [lambda: kernel.value(node.b), lambda: decided]
        then, otherwise = arms if op is Op.LOGICAL_AND else reversed(arms)
        return kernel.body.choice(left, BOOL, then, otherwise)

    return translate


def _reads(expression: ir.Expr) -> bool:
    loads: list[Any] = []
    tvm_ffi.structural_walk(expression, (ir.TensorLoad, loads.append))
    return bool(loads)


def _not(kernel: KernelWriter, node: Any) -> Value:
    return tuple(kernel.compute(Op.LOGICAL_NOT, BOOL, a) for a in kernel.value(node.a))


def _inverse(kernel: KernelWriter, node: Any) -> Value:
    kind = kernel.kind(node)
    return tuple(kernel.compute(Op.NOT, kind, a) for a in kernel.value(node.a))


def _select(kernel: KernelWriter, node: Any) -> Value:
    kind = kernel.kind(node)
    conditions, yes, no = map(kernel.value, (node.condition, node.true_value, node.false_value))
    conditions *= len(yes) if len(conditions) == 1 else 1
    return tuple(
        kernel.compute(Op.SELECT, kind, *each) for each in zip(conditions, yes, no, strict=True)
    )


def _cast(kernel: KernelWriter, node: Any) -> Value:
    (source, lanes), target = kernel.type_of(node.value.ty), kernel.kind(node)
    is_widened = is_vector_of_halves(source, lanes) and target == FLOAT32
    if is_widened and _is_at_once(kernel, node.value):
        # Without an instruction that takes a float16: not every device that stores it has any.
        place, (index,) = kernel.buffers[node.value.source], node.value.indices
        return load_vector(kernel, place, index.base, lanes, target)
    return tuple(cast(kernel, source, target, each) for each in kernel.value(node.value))


def _is_at_once(kernel: KernelWriter, node: Any) -> bool:
    """Whether a value is neighbours of a storage buffer that are loaded at once."""
    if not isinstance(node, ir.TensorLoad) or len(node.indices) != 1:
        return False
    place, kind = kernel.buffers[node.source], kernel.kind(node)
    return is_vector_of_floats(kernel, place, kind, node.indices[0])


def _number(kernel: KernelWriter, node: Any) -> Value:
    return (kernel.constant(kernel.kind(node), node.value),)


def _variable(kernel: KernelWriter, node: Any) -> Value:
    return kernel.values[node]


def _let(kernel: KernelWriter, node: Any) -> Value:
    kernel.values[node.var] = kernel.value(node.value)
    return kernel.value(node.body)


def _broadcast(kernel: KernelWriter, node: Any) -> Value:
    return kernel.value(node.value) * int(node.lanes)


def _ramp(kernel: KernelWriter, node: Any) -> Value:
    kind, base, stride = kernel.kind(node), kernel.scalar(node.base), kernel.scalar(node.stride)

    def at(lane: int) -> int:
        way = kernel.compute(Op.I_MUL, kind, stride, kernel.constant(kind, lane))
        return kernel.compute(Op.I_ADD, kind, base, way)

    return (base, *(at(lane) for lane in range(1, int(node.lanes))))


def _shuffle(kernel: KernelWriter, node: Any) -> Value:
    lanes = [lane for vector in node.vectors for lane in kernel.value(vector)]
    return tuple(lanes[int(index)] for index in node.indices)


def _load(kernel: KernelWriter, node: Any) -> Value:
    place, kind = kernel.buffers[node.source], kernel.kind(node)
    (index,) = node.indices
    if is_vector_of_floats(kernel, place, kind, index):
        return load_vector(kernel, place, index.base, int(index.lanes))
    if are_whole_vectors(place, lanes := kernel.type_of(node.ty)[1]):
        return load_vectors(kernel, place, index, lanes)
    of = kernel.types.scalar(place.stored)
    access = kernel.body.access(place.storage)
    loaded = [
        kernel.body.value(Op.LOAD, of, each, *access) for each in elements(kernel, place, index)
    ]
    if place.storage is StorageClass.STORAGE_BUFFER:
        return tuple(cast(kernel, place.stored, kind, each) for each in loaded)
    return tuple(loaded)


EXPRESSIONS: dict[str, Translate] = {
    **{name: _arithmetic(table) for name, table in _ARITHMETIC.items()},
    **{name: _comparison(table) for name, table in _COMPARISONS.items()},
    **{name: _extremum(name) for name in _EXTREMA},
    "Mod": _remainder,
    "And": _logical(Op.LOGICAL_AND),
    "Or": _logical(Op.LOGICAL_OR),
    "Not": _not,
    "BitwiseNot": _inverse,
    "Select": _select,
    "Cast": _cast,
    "IntImm": _number,
    "FloatImm": _number,
    "Var": _variable,
    "Let": _let,
    "Broadcast": _broadcast,
    "Ramp": _ramp,
    "Shuffle": _shuffle,
    "TensorLoad": _load,
    "Call": call,
}
