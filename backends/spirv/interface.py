"""The interface of a kernel: how TVM's runtime and ours pass its arguments.

Each buffer is a storage buffer of set 0, bound at its place among the buffers. Scalars follow, 8
bytes for each, as push constants; what is more than every device takes of these is a uniform buffer
after the storage buffers.

Buffers are decorated neither `Restrict` nor `Aliased`: several may be the one arena, but tensors of
a call never share a byte of it, so that no store changes what another buffer's loads give. Those
that a kernel only reads are `NonWritable`, and have a name that says so: by that a runtime knows
which launches wait for which. Each buffer's struct is a type of its own, as other compilers make
it: where buffers with the decoration and without had one type, NVIDIA's driver computed wrongly.

What is only read as vectors of four floats may be read as an image, too: a texel buffer, bound
behind all others in the order of the buffers. A constant of the pipeline by the buffer's binding
says which is read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tvm import ir, tirx

from odtc.backends.spirv.body import Value
from odtc.backends.spirv.kernel import BufferPlace, KernelWriter
from odtc.backends.spirv.memory.quotients import quotient
from odtc.backends.spirv.memory.shared import lanes_at_once
from odtc.backends.spirv.opcodes import Decoration, Op, StorageClass
from odtc.backends.spirv.types import BOOL, FLOAT16, FLOAT32, INT32, UINT32, ScalarKind

# Floats of a pixel.
_FOUR = 4
# Bytes of push constants that every device takes, and bytes of each scalar.
_PUSHED, _SCALAR = 128, 8
# Types of scalars that TVM's runtime can pass.
_SCALARS = {
    ScalarKind("int", 32),
    ScalarKind("int", 64),
    ScalarKind("uint", 32),
    ScalarKind("float", 32),
    ScalarKind("float", 64),
}
_HANDLE = (3, 64, 1)
# The name of buffers that a kernel only reads, by which vk_spirv.c knows them.
READ_ONLY = "read_only"
# The name of images of float16, likewise.
HALVES = "halves"
_CODES = {"int": 0, "uint": 1, "float": 2}


@dataclass(frozen=True)
class Interface:
    """The interface of a kernel that a launch needs.

    Attributes:
        arguments: code, bits and lanes of each, as DLPack numbers them; buffers come first.
        is_uniform: whether scalars are in a uniform buffer.
    """

    arguments: tuple[tuple[int, int, int], ...]
    is_uniform: bool


def declare(kernel: KernelWriter, function: tirx.PrimFunc) -> Interface:
    """Declares the kernel's parameters: their places and values."""
    buffers = [each for each in function.params if isinstance(each.ty, ir.PointerType)]
    scalars = [each for each in function.params if not isinstance(each.ty, ir.PointerType)]
    for binding, buffer in enumerate(buffers):
        kernel.buffers[buffer] = _storage_buffer(kernel, buffer, binding)
    kinds = [_scalar_kind(kernel, each) for each in scalars]
    is_uniform = _SCALAR * len(scalars) > _PUSHED
    if scalars:
        storage = StorageClass.UNIFORM if is_uniform else StorageClass.PUSH_CONSTANT
        variable = _block(kernel, kinds, storage)
        if is_uniform:
            _bind(kernel, variable, len(buffers))
        for member, (scalar, kind) in enumerate(zip(scalars, kinds, strict=True)):
            of = kernel.types.pointer(storage, kernel.types.scalar(kind))
            at = kernel.body.pure(Op.ACCESS_CHAIN, of, variable, kernel.constant(UINT32, member))
            loaded = kernel.body.pure(Op.LOAD, kernel.types.scalar(kind), at)
            kernel.values[scalar] = (loaded,)
    described = [(_CODES[kind.code], kind.bits, 1) for kind in kinds]
    return Interface((*[_HANDLE] * len(buffers), *described), is_uniform)


def offer_images(kernel: KernelWriter, interface: Interface, buffers: Iterable[Any]) -> None:
    """Declares the images that some buffers of the interface may be read as."""
    first = interface.arguments.count(_HANDLE) + interface.is_uniform
    for place in sorted((kernel.buffers[each] for each in buffers), key=attrgetter("binding")):
        binding = place.binding or 0
        of = kernel.types.pointer(StorageClass.UNIFORM_CONSTANT, kernel.types.image_of_floats())
        image = kernel.module.variable(of, StorageClass.UNIFORM_CONSTANT)
        _bind(kernel, image, first + binding)
        if place.stored == FLOAT16:
            kernel.module.name(image, HALVES)
        switch = kernel.module.switch(kernel.types.scalar(BOOL), binding)
        kernel.images[binding] = image, switch


def mark_read_only(kernel: KernelWriter) -> None:
    """Names and decorates the buffers that the code, which is written, only reads."""
    places = kernel.buffers.values()
    buffers = {
        each.variable: each.binding
        for each in places
        if each.storage is StorageClass.STORAGE_BUFFER
    }
    for variable in sorted(buffers.keys() - kernel.written):
        kernel.module.name(variable, READ_ONLY)
        vectors = [of for (at, _), of in kernel.vectors.items() if at == buffers[variable]]
        for each in (variable, *vectors):
            kernel.module.forbid_writing(kernel.structs[each])


def load_vector(
    kernel: KernelWriter,
    place: BufferPlace,
    first: ir.Expr,
    lanes: int,
    target: ScalarKind | None = None,
) -> Value:
    """Loads neighbours of a storage buffer at once, from a multiple of so many elements on.

    Args:
        kernel: that reads them.
        place: of the buffer.
        first: int32, the index of the first one.
        lanes: how many, a power of two.
        target: the kind to convert them to, if they are floats of another one.
    """
    if place.binding in kernel.images:
        switch = kernel.images[place.binding][1]
        return kernel.body.choice(
            switch,
            target or place.stored,
            lambda: _fetched(kernel, place, first, target or place.stored),
            lambda: _loaded(kernel, place, first, lanes, target),
        )
    return _loaded(kernel, place, first, lanes, target)


def _fetched(kernel: KernelWriter, place: BufferPlace, first: ir.Expr, target: ScalarKind) -> Value:
    """Four floats of a buffer that is read as an image: float32, whatever is stored."""
    image, _ = kernel.images[place.binding]
    at, _ = quotient(kernel, first, _FOUR)
    loaded = kernel.body.pure(Op.LOAD, kernel.types.image_of_floats(), image)
    of = kernel.types.vector(FLOAT32, _FOUR)
    pixel = kernel.body.value(Op.IMAGE_FETCH, of, loaded, at)
    scalar = kernel.types.computed(target)
    if target != FLOAT32:
        pixel = kernel.body.pure(Op.F_CONVERT, kernel.types.vector(target, _FOUR), pixel)
    return tuple(
        kernel.body.pure(Op.COMPOSITE_EXTRACT, scalar, pixel, lane) for lane in range(_FOUR)
    )


def _loaded(
    kernel: KernelWriter,
    place: BufferPlace,
    first: ir.Expr,
    lanes: int,
    target: ScalarKind | None,
) -> Value:
    of = kernel.types.vector(place.stored, lanes)
    loaded = kernel.body.value(Op.LOAD, of, _vector(kernel, place, first, lanes))
    kind = target or place.stored
    scalar = kernel.types.computed(kind)
    if kind != place.stored:
        loaded = kernel.body.pure(Op.F_CONVERT, kernel.types.vector(kind, lanes), loaded)
    return tuple(
        kernel.body.pure(Op.COMPOSITE_EXTRACT, scalar, loaded, lane) for lane in range(lanes)
    )


def store_vector(kernel: KernelWriter, place: BufferPlace, first: ir.Expr, value: Value) -> None:
    """Stores neighbours of a storage buffer at once, which nothing reaches as scalars.

    Args:
        kernel: that writes them.
        place: of the buffer.
        first: int32, the index of the first one, a multiple of their number.
        value: of them.
    """
    of = kernel.types.vector(place.stored, len(value))
    whole = kernel.body.pure(Op.COMPOSITE_CONSTRUCT, of, *value)
    kernel.body.do(Op.STORE, _vector(kernel, place, first, len(value)), whole)


def is_vector_of_floats(
    kernel: KernelWriter, place: BufferPlace, kind: ScalarKind, index: ir.Expr
) -> bool:
    """Whether neighbours of a storage buffer are read or written at once.

    Only kernels that are written by hand do so with two or four numbers, which lie at multiples of
    their vectors.
    """
    is_float = kind == place.stored and kind in (FLOAT16, FLOAT32)
    return place.binding is not None and is_float and lanes_at_once(index) > 0


def _vector(kernel: KernelWriter, place: BufferPlace, first: ir.Expr, lanes: int) -> int:
    """A pointer to so many neighbours from `first` on."""
    assert place.binding is not None
    of = kernel.types.vector(place.stored, lanes)
    key = place.binding, lanes
    if key not in kernel.vectors:
        size = place.stored.bits // 8 * lanes
        kernel.vectors[key] = _array_of(kernel, of, size, place.binding)
    at, _ = quotient(kernel, first, lanes)
    pointer = kernel.types.pointer(StorageClass.STORAGE_BUFFER, of)
    path = (kernel.vectors[key], kernel.constant(INT32, 0), at)
    return kernel.body.pure(Op.ACCESS_CHAIN, pointer, *path)


def load_word(kernel: KernelWriter, address: ir.Expr) -> Value:
    """Loads 4 bytes of a storage buffer of small elements as uint32.

    Args:
        kernel: that reads them.
        address: that of an element, which begins at a multiple of 4 bytes.
    """
    (element,) = address.args
    place, (at,) = kernel.buffers[element.source], element.indices
    assert place.binding is not None
    # No vector has no lanes.
    key, of = (place.binding, 0), kernel.types.scalar(UINT32)
    if key not in kernel.vectors:
        kernel.vectors[key] = _array_of(kernel, of, UINT32.bits // 8, place.binding)
    many = kernel.constant(UINT32, (UINT32.bits // place.stored.bits).bit_length() - 1)
    word = kernel.compute(Op.SHIFT_RIGHT_LOGICAL, kernel.kind(at), kernel.scalar(at), many)
    pointer = kernel.types.pointer(StorageClass.STORAGE_BUFFER, of)
    path = kernel.vectors[key], kernel.constant(INT32, 0), word
    return (kernel.body.value(Op.LOAD, of, kernel.body.pure(Op.ACCESS_CHAIN, pointer, *path)),)


def _storage_buffer(kernel: KernelWriter, buffer: Any, binding: int) -> BufferPlace:
    kind = kernel.type_of(buffer.ty.element_type)[0].stored
    kernel.types.in_buffer(kind)
    variable = _array_of(kernel, kernel.types.scalar(kind), kind.bits // 8, binding)
    return BufferPlace(variable, StorageClass.STORAGE_BUFFER, kind, binding=binding)


def _array_of(kernel: KernelWriter, element: int, size: int, binding: int) -> int:
    """A storage buffer of elements of a type of so many bytes."""
    struct = kernel.module.struct(kernel.module.runtime_array(element, size))
    kernel.module.decorate(struct, Decoration.BLOCK)
    kernel.module.place_member(struct, 0, 0)
    pointer = kernel.types.pointer(StorageClass.STORAGE_BUFFER, struct)
    variable = kernel.module.variable(pointer, StorageClass.STORAGE_BUFFER)
    kernel.structs[variable] = struct
    _bind(kernel, variable, binding)
    return variable


def _block(kernel: KernelWriter, kinds: Sequence[ScalarKind], storage: StorageClass) -> int:
    struct = kernel.module.struct(*(kernel.types.scalar(kind) for kind in kinds))
    kernel.module.decorate(struct, Decoration.BLOCK)
    for member in range(len(kinds)):
        kernel.module.place_member(struct, member, _SCALAR * member)
    return kernel.module.variable(kernel.types.pointer(storage, struct), storage)


def _bind(kernel: KernelWriter, variable: int, binding: int) -> None:
    kernel.module.decorate(variable, Decoration.DESCRIPTOR_SET, 0)
    kernel.module.decorate(variable, Decoration.BINDING, binding)


def _scalar_kind(kernel: KernelWriter, scalar: Any) -> ScalarKind:
    kind, lanes = kernel.type_of(scalar.ty)
    if kind not in _SCALARS or lanes > 1:
        raise kernel.unknown(f"an argument of type {scalar.ty}")
    return kind
