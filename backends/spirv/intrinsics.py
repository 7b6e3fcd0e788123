"""Translation of calls in kernels: functions of GLSL's by name, and those with a form of their own.

TVM calls functions by their names in C, `expf` among them, or leaves its own name, `tirx.exp`.
"""

from collections.abc import Callable
from typing import Any

from odtc.backends.gpu.coded.words import READ_WORD
from odtc.backends.spirv.body import Value
from odtc.backends.spirv.interface import load_word
from odtc.backends.spirv.kernel import KernelWriter
from odtc.backends.spirv.matrices import MATRIX_CALLS, matrix_call
from odtc.backends.spirv.opcodes import Glsl, Op
from odtc.backends.spirv.types import BOOL, UINT32, ScalarKind

_SINGLE = ScalarKind("float", 32)
# Of the bits of a float32: all but the sign, and where NaN begins.
_MAGNITUDE, _INFINITE = 0x7FFFFFFF, 0x7F800000

# Functions that GLSL has, by their names in C without the suffix of the type.
_GLSL = {
    "exp": Glsl.EXP,
    "exp2": Glsl.EXP2,
    "log": Glsl.LOG,
    "log2": Glsl.LOG2,
    "sqrt": Glsl.SQRT,
    "rsqrt": Glsl.INVERSE_SQRT,
    "sin": Glsl.SIN,
    "cos": Glsl.COS,
    "tan": Glsl.TAN,
    "asin": Glsl.ASIN,
    "acos": Glsl.ACOS,
    "atan": Glsl.ATAN,
    "atan2": Glsl.ATAN2,
    "sinh": Glsl.SINH,
    "cosh": Glsl.COSH,
    "asinh": Glsl.ASINH,
    "acosh": Glsl.ACOSH,
    "atanh": Glsl.ATANH,
    "floor": Glsl.FLOOR,
    "ceil": Glsl.CEIL,
    "trunc": Glsl.TRUNC,
    # Ties to even, as on the other targets.
    "round": Glsl.ROUND_EVEN,
    "nearbyint": Glsl.ROUND_EVEN,
    "fabs": Glsl.F_ABS,
    "fma": Glsl.FMA,
}
# Functions that keep NaN by their nature; drivers may turn NaN into a number in others.
_KEEPING = frozenset("floor ceil trunc round nearbyint fabs fma".split())
_EXTERN = ("tirx.call_pure_extern", "tirx.call_extern")


def call(kernel: KernelWriter, node: Any) -> Value:
    """The value of a call; empty for one with side effects only."""
    name, arguments = str(node.op.name), list(node.args)
    if name in _EXTERN:
        name, arguments = str(arguments[0].value), arguments[1:]
        if name == READ_WORD:
            return load_word(kernel, arguments[0])
        if name in MATRIX_CALLS:
            return matrix_call(kernel, name, arguments)
        return _function(kernel, node, name, arguments)
    translate = _OWN.get(name)
    if translate is not None:
        return translate(kernel, node)
    return _function(kernel, node, name.removeprefix("tirx."), arguments)


def _function(kernel: KernelWriter, node: Any, name: str, arguments: list[Any]) -> Value:
    name = name if name in _GLSL else name.removesuffix("f")
    instruction = _GLSL.get(name)
    if instruction is None:
        raise kernel.unknown(f"a call of {name}")
    kind = kernel.kind(node)
    keeps = name in _KEEPING or kind != _SINGLE

    def one(*operands: int) -> int:
        value = kernel.extended(instruction, kind, *operands)
        return value if keeps else _kept(kernel, value, operands)

    return tuple(one(*each) for each in zip(*map(kernel.value, arguments), strict=True))


def _kept(kernel: KernelWriter, value: int, operands: tuple[int, ...]) -> int:
    """A float32 value, or the operand if that is NaN, tested by bits; see `maths.py`."""
    for operand in operands:
        bits = kernel.compute(Op.BITCAST, UINT32, operand)
        size = kernel.compute(Op.BITWISE_AND, UINT32, bits, kernel.constant(UINT32, _MAGNITUDE))
        is_none = kernel.compute(Op.U_GREATER_THAN, BOOL, size, kernel.constant(UINT32, _INFINITE))
        value = kernel.compute(Op.SELECT, _SINGLE, is_none, operand, value)
    return value


def _if_then_else(kernel: KernelWriter, node: Any) -> Value:
    condition, yes, no = node.args
    return kernel.body.choice(
        kernel.scalar(condition),
        kernel.kind(node),
        lambda: kernel.value(yes),
        lambda: kernel.value(no),
    )


def _reinterpret(kernel: KernelWriter, node: Any) -> Value:
    (value,) = node.args
    source, target = kernel.kind(value), kernel.kind(node)
    if source == target:
        return kernel.value(value)
    kernel.types.computed(source)
    return tuple(kernel.compute(Op.BITCAST, target, each) for each in kernel.value(value))


def _barrier(kernel: KernelWriter, node: Any) -> Value:
    scope = str(node.args[0].value)
    if scope not in ("shared", "warp"):
        raise kernel.unknown(f"a barrier of {scope} memory")
    # Items that TVM counts as a warp may not be a subgroup of the device.
    kernel.body.barrier()
    return ()


def _likely(kernel: KernelWriter, node: Any) -> Value:
    return kernel.value(node.args[0])


_OWN: dict[str, Callable[[KernelWriter, Any], Value]] = {
    "prim.if_then_else": _if_then_else,
    "tirx.if_then_else": _if_then_else,
    "tirx.reinterpret": _reinterpret,
    "tirx.tvm_storage_sync": _barrier,
    "tirx.likely": _likely,
}
