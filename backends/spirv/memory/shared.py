"""Memory that is read in vectors: an array of them, where it would be one of floats.

A driver cannot tell that some floats of an array lie at a multiple of their size, and would load
each by itself. Where they are stored by fours, items side by side would wait for one bank. In
private memory only vectors of float16 are such arrays: two of them fit in a register.
"""

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from odtc.backends.spirv.body import Value
from odtc.backends.spirv.kernel import BufferPlace, KernelWriter
from odtc.backends.spirv.memory.quotients import quotient
from odtc.backends.spirv.opcodes import Op
from odtc.backends.spirv.types import FLOAT16, ScalarKind
from odtc.core.ir.matrix_calls import LOAD, name_of

# Of a matrix that is loaded: name, matrices, number, address.
_ADDRESS = 3
# Floats that are read or written at once, and the types of such vectors.
_AT_ONCE = (2, _FOUR := 4)
_VECTORS = {f"{of}x{lanes}": lanes for of in ("float16", "float32") for lanes in _AT_ONCE}


def read_in_vectors(function: tirx.PrimFunc) -> dict[Any, int]:
    """The buffers of shared memory that a kernel reads, itself or a view of, in vectors of floats.

    Matrices of a subgroup are read in vectors: their rows begin where whole ones do.
    Where two allocations live one after the other TVM makes views of one of them.

    Returns:
        Floats of the smallest vector that is read of each.
    """
    roots, found = _Roots(function.body), dict[Any, int]()

    def look(node: ir.TensorLoad) -> None:
        root = roots.of(node.source)
        if lanes := _VECTORS.get(str(node.ty.dtype)):
            found[root] = min(lanes, found.get(root, lanes))

    def look_at_call(node: ir.Call) -> None:
        if name_of(node) == LOAD:
            found.setdefault(roots.of(node.args[_ADDRESS].args[0].source), max(_AT_ONCE))

    tvm_ffi.structural_walk(function.body, [(ir.TensorLoad, look), (ir.Call, look_at_call)])
    inner = found.keys() - {*function.params}
    return {each: found[each] for each in inner if str(each.scope()) == "shared"}


def only_vectors(function: tirx.PrimFunc) -> set[Any]:
    """The parameters whose elements a kernel reaches as aligned vectors of floats alone.

    Two variables that are one buffer would have to say so where one of them is written through.
    """
    reached = _reached(function, (ir.TensorLoad, tirx.BufferStore), ("float32",))
    return {each for each, lanes in reached.items() if len(lanes) == 1 and 0 not in lanes}


def only_read_by_fours(function: tirx.PrimFunc) -> set[Any]:
    """The parameters that a kernel reads as aligned vectors of four floats, and never otherwise.

    What it rounds to float16 as it is read is none of them: of a read of an image and a conversion
    a driver may make one instruction, and lavapipe's rounds toward zero.
    """
    floats = ("float32", "float16")
    written = _reached(function, (tirx.BufferStore,), floats)
    read = _reached(function, (ir.TensorLoad,), floats)
    others = written.keys() | _rounded(function)
    return {each for each, lanes in read.items() if lanes == {_FOUR} and each not in others}


def _rounded(function: tirx.PrimFunc) -> set[Any]:
    """The buffers of which a kernel converts elements to float16."""
    roots, found = _Roots(function.body), set[Any]()

    def look(node: tirx.Cast) -> None:
        if str(node.ty.dtype).startswith("float16"):
            loads: list[ir.TensorLoad] = []
            tvm_ffi.structural_walk(node.value, (ir.TensorLoad, loads.append))
            found.update(roots.of(each.source) for each in loads)

    tvm_ffi.structural_walk(function.body, (tirx.Cast, look))
    return found


def _reached(
    function: tirx.PrimFunc, by: Sequence[Any], floats: Sequence[str]
) -> dict[Any, set[int]]:
    """The parameters that nodes of some classes reach, with the floats of each vector.

    0 stands for what is no aligned vector of such floats. To take an element's address is a load
    of it.
    """
    roots, found = _Roots(function.body), dict[Any, set[int]]()

    def reach(buffer: Any, indices: Sequence[ir.Expr]) -> None:
        is_run = str(buffer.dtype) in floats and len(indices) == 1
        lanes = lanes_at_once(indices[0]) if is_run else 0
        found.setdefault(roots.of(buffer), set()).add(lanes)

    looks = {
        tirx.BufferStore: lambda node: reach(node.buffer, node.indices),
        ir.TensorLoad: lambda node: reach(node.source, node.indices),
    }
    tvm_ffi.structural_walk(function.body, [(each, looks[each]) for each in by])
    return {each: found[each] for each in function.params if each in found}


class _Roots:
    """Whose memory the buffers of a kernel are: of a parameter, or of an allocation."""

    def __init__(self, body: tirx.Stmt) -> None:
        self._views: dict[Any, Any] = {}
        tvm_ffi.structural_walk(body, (tirx.DeclBuffer, self._add))

    def _add(self, node: tirx.DeclBuffer) -> None:
        source = node.data.args[0] if isinstance(node.data, ir.Call) else node.data
        self._views[node.buffer] = source

    def of(self, buffer: Any) -> Any:
        """The parameter or the allocation; the buffer itself where it is no view."""
        while buffer in self._views:
            buffer = self._views[buffer]
        return buffer


def lanes_at_once(index: ir.Expr) -> int:
    """How many neighbours an index of 32 bits is of, where those are a vector; 0 of any other."""
    is_run = (
        isinstance(index, tirx.Ramp)
        and int(index.lanes) in _AT_ONCE
        and isinstance(index.stride, tirx.IntImm)
        and int(index.stride) == 1
        and str(index.base.ty.dtype) == "int32"
    )
    return int(index.lanes) if is_run else 0


def is_vector_of_halves(kind: ScalarKind, lanes: int) -> bool:
    """Whether a value is float16 that are read or written at once."""
    return kind == FLOAT16 and lanes in _AT_ONCE


def are_whole_vectors(place: BufferPlace, lanes: int) -> bool:
    """Whether so many floats are some vectors of an array of vectors."""
    return place.wide > 1 and lanes % place.wide == 0


def load_vectors(kernel: KernelWriter, place: BufferPlace, index: ir.Expr, lanes: int) -> Value:
    """Loads so many floats, a vector at once."""
    of = kernel.types.vector(place.stored, place.wide)
    scalar = kernel.types.scalar(place.stored)
    access = kernel.body.access(place.storage)
    loaded = [
        kernel.body.value(Op.LOAD, of, each, *access)
        for each in _vectors(kernel, place, index, lanes)
    ]
    return tuple(
        kernel.body.pure(Op.COMPOSITE_EXTRACT, scalar, each, lane)
        for each in loaded
        for lane in range(place.wide)
    )


def store_vectors(kernel: KernelWriter, place: BufferPlace, index: ir.Expr, value: Value) -> None:
    """Stores floats, a vector at once."""
    of, wide = kernel.types.vector(place.stored, place.wide), place.wide
    for number, pointer in enumerate(_vectors(kernel, place, index, len(value))):
        part = value[number * wide : (number + 1) * wide]
        whole = kernel.body.pure(Op.COMPOSITE_CONSTRUCT, of, *part)
        kernel.body.do(Op.STORE, pointer, whole, *kernel.body.access(place.storage))


def elements(kernel: KernelWriter, place: BufferPlace, index: ir.Expr) -> list[int]:
    """Pointers to the scalars that an index means, which may be in vectors."""
    if place.wide == 1:
        return kernel.elements(place, index)
    is_run = isinstance(index, tirx.Ramp)
    each = [index.base + index.stride * n for n in range(int(index.lanes))] if is_run else [index]
    places = [_first(place, at) + lane for at in each for lane in range(place.lanes)]
    return [kernel.pointer(place, *quotient(kernel, at, place.wide)) for at in places]


def _first(place: BufferPlace, index: ir.Expr) -> ir.Expr:
    """The first scalar of an index: of an element, or of neighbours."""
    first = index.base if isinstance(index, tirx.Ramp) else index
    return first if place.lanes == 1 else first * place.lanes


def _vectors(kernel: KernelWriter, place: BufferPlace, index: ir.Expr, lanes: int) -> list[int]:
    """Pointers to the vectors of an index: of an element, or of neighbours from a multiple on."""
    first = _first(place, index)
    kind, (at, _) = kernel.kind(first), quotient(kernel, first, place.wide)
    pointer = kernel.types.pointer(place.storage, kernel.types.vector(place.stored, place.wide))
    places = [at]
    for number in range(1, lanes // place.wide):
        places.append(kernel.compute(Op.I_ADD, kind, at, kernel.constant(kind, number)))
    return [kernel.body.pure(Op.ACCESS_CHAIN, pointer, place.variable, each) for each in places]
