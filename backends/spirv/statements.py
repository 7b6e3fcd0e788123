"""Translates TIR statements, one table row for each kind of node."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import ir, tirx

from odtc.backends.spirv.conversions import cast
from odtc.backends.spirv.interface import is_vector_of_floats, store_vector
from odtc.backends.spirv.kernel import KernelWriter
from odtc.backends.spirv.matrices import allocate, is_of_matrices
from odtc.backends.spirv.memory.shared import (
    are_whole_vectors,
    elements,
    is_vector_of_halves,
    store_vectors,
)
from odtc.backends.spirv.opcodes import BuiltIn, Op, StorageClass
from odtc.backends.spirv.types import UINT32

_SCOPES = {"local": StorageClass.FUNCTION, "shared": StorageClass.WORKGROUP}
_BUILT_INS = {"blockIdx": BuiltIn.WORKGROUP_ID, "threadIdx": BuiltIn.LOCAL_INVOCATION_ID}

# Where subgroups multiply matrices: the item's number in its subgroup, and the subgroup's.
_OF_SUBGROUPS = {"x": BuiltIn.SUBGROUP_LOCAL_INVOCATION_ID, "y": BuiltIn.SUBGROUP_ID}


def _sequence(kernel: KernelWriter, node: Any) -> None:
    for each in node.seq:
        kernel.run(each)


def _evaluate(kernel: KernelWriter, node: Any) -> None:
    if isinstance(node.value, ir.Call):
        kernel.value(node.value)


def _bind(kernel: KernelWriter, node: Any) -> None:
    kernel.values[node.var] = kernel.value(node.value)


def _if(kernel: KernelWriter, node: Any) -> None:
    otherwise = node.else_case
    kernel.body.when(
        kernel.scalar(node.condition),
        lambda: kernel.run(node.then_case),
        None if otherwise is None else lambda: kernel.run(otherwise),
    )


def _for(kernel: KernelWriter, node: Any) -> None:
    kind = kernel.kind(node.loop_var)
    begin, extent = kernel.scalar(node.min), kernel.scalar(node.extent)
    end = extent if _is_zero(node.min) else kernel.compute(Op.I_ADD, kind, begin, extent)
    step = kernel.constant(kind, 1) if node.step is None else kernel.scalar(node.step)

    def run(number: int) -> None:
        kernel.values[node.loop_var] = (number,)
        kernel.run(node.body)

    unroll = node.kind == tirx.ForKind.UNROLLED
    kernel.body.loop(kind, (begin, end, step), run, unroll=unroll)


def _is_zero(expression: Any) -> bool:
    return isinstance(expression, tirx.IntImm) and expression.value == 0


def _while(kernel: KernelWriter, node: Any) -> None:
    kernel.body.repeat(lambda: kernel.scalar(node.condition), lambda: kernel.run(node.body))


def _store(kernel: KernelWriter, node: Any) -> None:
    place, kind = kernel.buffers[node.buffer], kernel.kind(node.value)
    (index,) = node.indices
    values = kernel.value(node.value)
    kernel.written.add(place.variable)
    if are_whole_vectors(place, len(values)):
        store_vectors(kernel, place, index, values)
        return
    is_apart = place.binding in kernel.only_vectors
    if is_apart and is_vector_of_floats(kernel, place, kind, index):
        store_vector(kernel, place, index.base, values)
        return
    access = kernel.body.access(place.storage)
    for pointer, value in zip(elements(kernel, place, index), values, strict=True):
        kernel.body.do(Op.STORE, pointer, cast(kernel, kind, place.stored, value), *access)


def _declare(kernel: KernelWriter, node: Any) -> None:
    """A view of a pointer, or of another buffer's memory."""
    source = node.data.args[0] if isinstance(node.data, ir.Call) else node.data
    place = kernel.buffers[source]
    kind, lanes = kernel.type_of(node.buffer)
    if kind.stored != place.stored.stored:
        if place.storage is not StorageClass.WORKGROUP:
            raise kernel.unknown(f"{kind.code}{kind.bits} in memory of another type")
        # What was in it is no longer needed: TVM gives the place to what comes later.
        length = math.prod(int(size) for size in node.buffer.shape)
        shared = kernel.allocate(place.storage, kind, lanes, length, place.wide)
        kernel.buffers[node.buffer] = shared
        return
    kernel.buffers[node.buffer] = replace(place, lanes=lanes)


def _allocate(kernel: KernelWriter, node: Any) -> None:
    buffer, scope = node.buffer, str(node.buffer.scope())
    if is_of_matrices(scope):
        allocate(kernel, buffer)
        return
    if scope not in _SCOPES:
        raise kernel.unknown(f"{scope or 'global'} memory of its own")
    kind, lanes = kernel.type_of(buffer)
    length = math.prod(int(size) for size in buffer.shape)
    is_packed = scope == "local" and is_vector_of_halves(kind, lanes)
    wide = lanes if is_packed else kernel.read_in_vectors.get(buffer, 1)
    kernel.buffers[buffer] = kernel.allocate(_SCOPES[scope], kind, lanes, length, wide)


def _attribute(kernel: KernelWriter, node: Any) -> None:
    """Binds a work-item's number along an axis; other attributes are hints without effect here."""
    if node.attr_key == "thread_extent":
        name, _, axis = str(node.node.thread_tag).partition(".")
        if name not in _BUILT_INS or axis not in ("x", "y", "z"):
            raise kernel.unknown(f"threads called {node.node.thread_tag}")
        number = "xyz".index(axis)
        if name == "threadIdx":
            kernel.group[number] = int(node.value)
        if name == "threadIdx" and kernel.matrices:
            # Which items are a subgroup is the device's choice.
            found = kernel.number(_OF_SUBGROUPS[axis])
        else:
            found = kernel.input(_BUILT_INS[name], number)
        kind = kernel.kind(node.node.var)
        kernel.values[node.node.var] = (cast(kernel, UINT32, kind, found),)
    kernel.run(node.body)


STATEMENTS: dict[str, Callable[[KernelWriter, Any], None]] = {
    "SeqStmt": _sequence,
    "Evaluate": _evaluate,
    "Bind": _bind,
    "IfThenElse": _if,
    "For": _for,
    "While": _while,
    "BufferStore": _store,
    "DeclBuffer": _declare,
    "AllocBuffer": _allocate,
    "AttrStmt": _attribute,
}
