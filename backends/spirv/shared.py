"""Shared memory that is read in vectors: an array of them, where it would be one of floats.

A driver cannot tell that four floats of an array lie at a multiple of their size, and would load
each by itself.
"""

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from odtc.backends.spirv.body import Value
from odtc.backends.spirv.kernel import VECTOR, BufferPlace, KernelWriter
from odtc.backends.spirv.opcodes import Op, StorageClass
from odtc.backends.spirv.types import FLOAT32, UINT32


def read_in_vectors(function: tirx.PrimFunc) -> set[Any]:
    """The buffers of shared memory that a kernel reads in vectors of floats."""
    found: set[Any] = set()

    def look(node: ir.TensorLoad) -> None:
        if str(node.ty.dtype) == f"float32x{VECTOR}":
            found.add(node.source)

    tvm_ffi.structural_walk(function.body, (ir.TensorLoad, look))
    return {each for each in found if str(each.scope()) == "shared"}


def allocate_vectors(kernel: KernelWriter, lanes: int, length: int) -> BufferPlace:
    """An array of vectors, for so many elements of `lanes` floats each."""
    of = kernel.types.vectors(FLOAT32, VECTOR, -(-length * lanes // VECTOR))
    pointer = kernel.types.pointer(StorageClass.WORKGROUP, of)
    variable = kernel.module.variable(pointer, StorageClass.WORKGROUP)
    return BufferPlace(variable, StorageClass.WORKGROUP, FLOAT32, lanes, in_vectors=True)


def load_shared(kernel: KernelWriter, place: BufferPlace, index: ir.Expr) -> Value:
    """Loads a vector at once."""
    of = kernel.types.vector(FLOAT32, VECTOR)
    loaded = kernel.body.value(Op.LOAD, of, _vector(kernel, place, index))
    scalar = kernel.types.scalar(FLOAT32)
    return tuple(
        kernel.body.pure(Op.COMPOSITE_EXTRACT, scalar, loaded, lane) for lane in range(VECTOR)
    )


def store_shared(kernel: KernelWriter, place: BufferPlace, index: ir.Expr, value: Value) -> None:
    """Stores a vector at once."""
    of = kernel.types.vector(FLOAT32, VECTOR)
    whole = kernel.body.pure(Op.COMPOSITE_CONSTRUCT, of, *value)
    kernel.body.do(Op.STORE, _vector(kernel, place, index), whole)


def _vector(kernel: KernelWriter, place: BufferPlace, index: ir.Expr) -> int:
    """A pointer to the vector at an index: an element of four lanes, or a multiple of so many."""
    first = index.base if isinstance(index, tirx.Ramp) else index
    kind, at = kernel.kind(first), kernel.scalar(first)
    if place.lanes == 1:
        shift = kernel.constant(UINT32, VECTOR.bit_length() - 1)
        at = kernel.compute(Op.SHIFT_RIGHT_LOGICAL, kind, at, shift)
    pointer = kernel.types.pointer(place.storage, kernel.types.vector(FLOAT32, VECTOR))
    return kernel.body.pure(Op.ACCESS_CHAIN, pointer, place.variable, at)
