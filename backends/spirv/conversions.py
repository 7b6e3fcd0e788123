"""Casts between scalars.

Integers change their width and their sign in two steps, the sign always at the larger width: there
a device needs to compute with it, while small integers may be something that it can only store.
"""

from odtc.backends.spirv.kernel import KernelWriter
from odtc.backends.spirv.opcodes import Op
from odtc.backends.spirv.types import BOOL, INT32, UINT32, ScalarKind

# From and to a float, by whether the integer has a sign.
_TO_FLOAT = {"int": Op.CONVERT_S_TO_F, "uint": Op.CONVERT_U_TO_F}
_FROM_FLOAT = {"int": Op.CONVERT_F_TO_S, "uint": Op.CONVERT_F_TO_U}
_WIDTH = {"int": Op.S_CONVERT, "uint": Op.U_CONVERT}


def cast(kernel: KernelWriter, source: ScalarKind, target: ScalarKind, value: int) -> int:
    """Converts a value to another kind, as a cast in C does."""
    if source == target:
        return value
    if target == BOOL:
        return _is_not_zero(kernel, source, value)
    return _FROM[source.code](kernel, source, target, value)


def _converted(kernel: KernelWriter, op: Op, target: ScalarKind, value: int) -> int:
    """Emits a conversion; devices support it for types that they cannot compute with, too."""
    return kernel.body.pure(op, kernel.types.scalar(target), value)


def _is_not_zero(kernel: KernelWriter, source: ScalarKind, value: int) -> int:
    if source.code == "float":
        zero = kernel.constant(source, 0.0)
        return kernel.compute(Op.F_UNORD_NOT_EQUAL, BOOL, value, zero)
    if source.bits < 32:
        value, source = cast(kernel, source, UINT32, value), UINT32
    return kernel.compute(Op.I_NOT_EQUAL, BOOL, value, kernel.constant(source, 0))


def _of_bool(kernel: KernelWriter, _: ScalarKind, target: ScalarKind, value: int) -> int:
    if target.is_integer and target.bits < 32:
        return cast(kernel, UINT32, target, cast(kernel, BOOL, UINT32, value))
    one, zero = kernel.constant(target, 1), kernel.constant(target, 0)
    return kernel.compute(Op.SELECT, target, value, one, zero)


def _of_float(kernel: KernelWriter, source: ScalarKind, target: ScalarKind, value: int) -> int:
    if target.code == "float":
        return _converted(kernel, Op.F_CONVERT, target, value)
    if target.bits < 32:
        return cast(kernel, INT32, target, _of_float(kernel, source, INT32, value))
    return kernel.compute(_FROM_FLOAT[target.code], target, value)


def _to_float(kernel: KernelWriter, source: ScalarKind, target: ScalarKind, value: int) -> int:
    if source.bits < 32:
        value, source = cast(kernel, source, INT32, value), INT32
    return kernel.compute(_TO_FLOAT[source.code], target, value)


def _of_integer(kernel: KernelWriter, source: ScalarKind, target: ScalarKind, value: int) -> int:
    if target.code == "float":
        return _to_float(kernel, source, target, value)
    if source.bits > target.bits:
        source, value = _signed(kernel, source, target.code, value)
        return _converted(kernel, _WIDTH[target.code], target, value)
    if source.bits < target.bits:
        wide = ScalarKind(source.code, target.bits)
        source, value = wide, _converted(kernel, _WIDTH[source.code], wide, value)
    return _signed(kernel, source, target.code, value)[1]


def _signed(
    kernel: KernelWriter, source: ScalarKind, code: str, value: int
) -> tuple[ScalarKind, int]:
    """Reinterprets an integer as signed or unsigned."""
    if source.code == code:
        return source, value
    target = ScalarKind(code, source.bits)
    return target, kernel.compute(Op.BITCAST, target, value)


_FROM = {"bool": _of_bool, "float": _of_float, "int": _of_integer, "uint": _of_integer}
