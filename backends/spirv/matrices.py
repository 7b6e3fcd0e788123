"""Matrices that a subgroup multiplies as a whole (SPV_KHR_cooperative_matrix).

Each matrix is a private variable of its own: its number has to be known, so loops over matrices are
written out. All items of a subgroup execute these instructions together, with the same operands.

Under Vulkan's memory model, which they ask for, shared memory is an item's own unless an access
says otherwise: see `NON_PRIVATE` in `body.py`.
"""

from collections.abc import Callable
from typing import Any

from tvm import ir

from odtc.backends.spirv.body import Value
from odtc.backends.spirv.kernel import KernelWriter
from odtc.backends.spirv.memory.quotients import quotient
from odtc.backends.spirv.opcodes import NON_PRIVATE, SUBGROUP_SCOPE, Capability, Op
from odtc.backends.spirv.types import UINT32
from odtc.core.ir.matrix_calls import CLEAR, LEFT, LOAD, MULTIPLY, RIGHT, SIZE, STORE, SUMS

# What a matrix is in a product, by the scope of its memory.
_USES = {LEFT: 0, RIGHT: 1, SUMS: 2}
_BY_ROWS, _BY_COLUMNS = 0, 1


def is_of_matrices(scope: str) -> bool:
    """Whether memory of a scope holds matrices of a subgroup."""
    return scope in _USES


def allocate(kernel: KernelWriter, buffer: Any) -> None:
    """Declares the matrices of an allocation."""
    kernel.module.capabilities |= {Capability.COOPERATIVE_MATRIX, Capability.VULKAN_MEMORY_MODEL}
    (size,) = buffer.shape
    of = _type(kernel, buffer)
    count = -(-int(size) // SIZE**2)
    kernel.matrices[buffer] = of, [kernel.body.private(of) for _ in range(count)]


def _type(kernel: KernelWriter, buffer: Any) -> int:
    kind, _ = kernel.type_of(buffer)
    use = _USES[str(buffer.scope())]
    numbers = (kernel.constant(UINT32, each) for each in (SUBGROUP_SCOPE, SIZE, SIZE, use))
    return kernel.module.type(Op.TYPE_COOPERATIVE_MATRIX, kernel.types.computed(kind), *numbers)


def _clear(kernel: KernelWriter, of: Any, number: Any) -> None:
    matrix, variable = _variable(kernel, of, number)
    zero = kernel.constant(kernel.type_of(_buffer(of))[0], 0.0)
    kernel.body.do(Op.STORE, variable, kernel.body.pure(Op.COMPOSITE_CONSTRUCT, matrix, zero))


def _load(kernel: KernelWriter, of: Any, number: Any, *place: Any) -> None:
    matrix, variable = _variable(kernel, of, number)
    pointer, layout, pitch = _place(kernel, *place)
    loaded = kernel.body.value(
        Op.COOPERATIVE_MATRIX_LOAD, matrix, pointer, layout, pitch, NON_PRIVATE
    )
    kernel.body.do(Op.STORE, variable, loaded)


def _store(kernel: KernelWriter, of: Any, number: Any, *place: Any) -> None:
    matrix, variable = _variable(kernel, of, number)
    value = kernel.body.value(Op.LOAD, matrix, variable)
    pointer, layout, pitch = _place(kernel, *place)
    kernel.body.do(Op.COOPERATIVE_MATRIX_STORE, pointer, value, layout, pitch, NON_PRIVATE)


def _multiply(kernel: KernelWriter, *operands: Any) -> None:
    (of, total), left, right = (_variable(kernel, *operands[at : at + 2]) for at in (0, 2, 4))
    values = [kernel.body.value(Op.LOAD, *each) for each in (left, right, (of, total))]
    kernel.body.do(Op.STORE, total, kernel.body.value(Op.COOPERATIVE_MATRIX_MUL_ADD, of, *values))


MATRIX_CALLS: dict[str, Callable[..., None]] = {
    CLEAR: _clear,
    LOAD: _load,
    STORE: _store,
    MULTIPLY: _multiply,
}


def matrix_call(kernel: KernelWriter, name: str, arguments: list[Any]) -> Value:
    """Emits a call of a subgroup; it has no value."""
    MATRIX_CALLS[name](kernel, *arguments)
    return ()


def _buffer(of: Any) -> Any:
    """The allocation that a call names by its memory."""
    return of.args[0] if isinstance(of, ir.Call) else of


def _variable(kernel: KernelWriter, of: Any, number: Any) -> tuple[int, int]:
    """The type of a matrix, and its variable."""
    matrix, variables = kernel.matrices[_buffer(of)]
    return matrix, variables[int(number)]


def _place(kernel: KernelWriter, address: Any, pitch: Any, by_columns: Any) -> tuple[int, int, int]:
    """Pointer, layout and pitch of a matrix in shared memory, in vectors where that has some."""
    (element,) = address.args
    place, (at,) = kernel.buffers[element.source], element.indices
    first, _ = quotient(kernel, at, place.wide)
    of = kernel.types.scalar(place.stored)
    if place.wide > 1:
        of = kernel.types.vector(place.stored, place.wide)
    to = kernel.types.pointer(place.storage, of)
    pointer = kernel.body.pure(Op.ACCESS_CHAIN, to, place.variable, first)
    layout = kernel.constant(UINT32, _BY_COLUMNS if int(by_columns) else _BY_ROWS)
    return pointer, layout, kernel.constant(UINT32, int(pitch) // place.wide)
