"""Loops over the elements of dense tensors of one shape, scheduled as they are written.

TVM's schedule primitives refuse blocks that read what they write, so the parallel loop is part of
these kernels. Its body is a plain loop over flat indices, which LLVM vectorises.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.ir.flat_positions import indices_of
from odtc.core.ir.kernel_marks import INDEPENDENT, IS_SCHEDULED, OPAQUE, PATTERN

# A large kernel is cut into at most so many chunks, one of fewer elements than this into none.
MAX_CHUNKS = 64
PARALLEL_ELEMENTS = 1 << 15
# Partial sums side by side, a whole number of vectors on every CPU: LLVM may not reorder a sum.
LANES = 16

Index = list[ir.Expr]


@contextmanager
def kernel(name: str) -> Iterator[Callable[[], tirx.PrimFunc]]:
    """The arguments and body of a private kernel; what it yields gives the kernel after it."""
    made = []
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name(name)
            # Fusion would lose what is changed in place.
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            yield lambda: made[0]
        made.append(builder.get())


def for_each(shape: Sequence[int], body: Callable[[Index], None]) -> None:
    """Runs a body for every element; a GPU runs it for all at once."""
    size = math.prod(shape)
    chunks, length = _cut(size)
    loop = _chunk_loop(size)
    with (
        loop(chunks, annotations={INDEPENDENT: chunks}) as chunk,
        T.serial(_length(size, chunk), annotations={INDEPENDENT: length}) as at,
        T.sblock("element"),
    ):
        body(indices_of(T.axis.spatial(size, chunk * length + at), shape))


def sums(shape: Sequence[int], terms: Callable[[Index], Sequence[ir.Expr]]) -> list[ir.Expr]:
    """Sums of float32 terms over all elements, in an order that threads do not change."""
    size = math.prod(shape)
    chunks, length = _cut(size)
    number = len(terms([tirx.const(0, "int32") for _ in shape]))
    partial = T.sblock_alloc_buffer((number, chunks, LANES), "float32")
    total = T.sblock_alloc_buffer((number,), "float32")
    zero = tirx.const(0.0, "float32")

    def add(chunk: ir.Expr, flat: ir.Expr, lane: ir.Expr | int) -> None:
        for term, value in enumerate(terms(indices_of(flat, shape))):
            old = tirx.BufferLoad(partial, [term, chunk, lane])
            T.buffer_store(partial, old + value, [term, chunk, lane])

    with _chunk_loop(size)(chunks) as chunk, T.sblock("chunk"):
        here = T.axis.spatial(chunks, chunk)
        for term in range(number):
            with T.vectorized(LANES) as lane:
                T.buffer_store(partial, zero, [term, here, lane])
        # All chunks but the last are whole numbers of LANES long.
        elements = _length(size, here)
        with T.serial(elements // LANES) as row, T.vectorized(LANES) as lane:
            add(here, here * length + row * LANES + lane, lane)
        with T.serial(elements % LANES) as rest:
            add(here, here * length + elements // LANES * LANES + rest, 0)
    for term in range(number):
        T.buffer_store(total, zero, [term])
        with T.serial(chunks) as chunk, T.serial(LANES) as lane, T.sblock("sum"):
            where = [term, T.axis.reduce(chunks, chunk), T.axis.reduce(LANES, lane)]
            old = tirx.BufferLoad(total, [term])
            T.buffer_store(total, old + tirx.BufferLoad(partial, where), [term])
    return [tirx.BufferLoad(total, [term]) for term in range(number)]


def _cut(size: int) -> tuple[int, int]:
    """Number of chunks, and elements in each but the last."""
    if size < PARALLEL_ELEMENTS:
        return 1, size
    length = -(-size // (MAX_CHUNKS * LANES)) * LANES
    return -(-size // length), length


def _length(size: int, chunk: ir.Expr) -> ir.Expr | int:
    chunks, length = _cut(size)
    return length if size == chunks * length else tirx.min(length, size - chunk * length)


def _chunk_loop(size: int) -> Callable[..., T.frame.ForFrame]:
    return T.parallel if size >= PARALLEL_ELEMENTS else T.serial
