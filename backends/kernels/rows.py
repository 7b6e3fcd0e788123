"""Passes over the elements of a row, in vectors: the parts that normalisations are made of.

A row is some segments, each of elements that lie side by side: the planes of a channel, or the last
dimensions of a tensor. A pass sums over it, or writes it. Sums are kept in several vectors at once:
one would wait for itself, and many short sums lose fewer digits than a long one.

All of this is emitted into the open block of an IR builder.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.core.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

# Vectors that a sum is kept in: an addition takes about as many cycles.
VECTORS = 4
# Below this many elements a kernel is not worth a second thread.
PARALLEL_ELEMENTS = 1 << 14

# From the segment and the position in it to values there, or to nothing: it stores them.
Terms = Callable[[ir.Expr, ir.Expr], Sequence[ir.Expr]]
Body = Callable[[ir.Expr, ir.Expr], None]
Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]


def add(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """What most passes combine values by."""
    return left + right


@dataclass(frozen=True)
class Row:
    """The elements that a pass runs over.

    Attributes:
        segments: number of segments.
        size: elements of a segment.
        lanes: elements of a vector, a power of two; shorter segments have shorter vectors.
        dtype: of sums.
    """

    segments: int
    size: int
    lanes: int
    dtype: str = "float32"

    @property
    def width(self) -> int:
        """Elements of a vector: the largest power of two that fits."""
        return min(self.lanes, 1 << (self.size.bit_length() - 1))

    def vectors(self, body: Callable[[ir.Expr, ir.Expr, ir.Expr | int, int], None]) -> None:
        """Runs `body(segment, position, accumulator, elements)` for each vector of the row.

        `position` is that of its first element; `accumulator` counts the vectors of a block. The
        last vector of a segment may be a part of one.
        """
        block = self.width * VECTORS
        blocks, rest = divmod(self.size, block)
        with T.serial(self.segments) as segment:
            if blocks:
                with T.serial(blocks) as at, T.unroll(VECTORS) as vector:
                    body(segment, at * block + vector * self.width, vector, self.width)
            if rest // self.width:
                with T.unroll(rest // self.width) as vector:
                    body(segment, blocks * block + vector * self.width, vector, self.width)
            if rest % self.width:
                body(
                    segment,
                    tirx.const(self.size - rest % self.width, "int32"),
                    0,
                    rest % self.width,
                )

    def write(self, body: Body) -> None:
        """Runs a body that stores for every element."""

        def vector(segment: ir.Expr, start: ir.Expr, _: ir.Expr | int, width: int) -> None:
            with T.vectorized(width) as lane:
                body(segment, start + lane)

        self.vectors(vector)

    def fold(
        self, terms: Terms, start: float = 0.0, combine: Combine = add, count: int = 1
    ) -> list[ir.Expr]:
        """Combines each of `count` terms over all elements."""
        made = [_Accumulator(self, start, combine) for _ in range(count)]

        def vector(segment: ir.Expr, at: ir.Expr, slot: ir.Expr | int, elements: int) -> None:
            with T.vectorized(elements) as lane:
                for accumulator, term in zip(made, terms(segment, at + lane), strict=True):
                    accumulator.take(slot, lane, elements, term)

        self.vectors(vector)
        return [accumulator.total() for accumulator in made]


class _Accumulator:
    """Vectors in registers, and one more for the last, shorter vector of a segment."""

    def __init__(self, row: Row, start: float, combine: Combine) -> None:
        self._width, self._tail, self._combine = row.width, row.size % row.width, combine
        # Scope "local" would mean scratch memory of TVM's runtime; this is the stack, or registers.
        self._main = T.sblock_alloc_buffer((VECTORS * self._width,), row.dtype)
        self._last = T.sblock_alloc_buffer((self._tail,), row.dtype) if self._tail else None
        first = tirx.const(start, row.dtype)
        with T.unroll(VECTORS) as vector, T.vectorized(self._width) as lane:
            T.buffer_store(self._main, first, [vector * self._width + lane])
        if self._last is not None:
            with T.vectorized(self._tail) as lane:
                T.buffer_store(self._last, first, [lane])

    def take(self, slot: ir.Expr | int, lane: ir.Expr, elements: int, term: ir.Expr) -> None:
        full = elements == self._width
        buffer, at = (self._main, slot * self._width + lane) if full else (self._last, lane)
        T.buffer_store(buffer, self._combine(tirx.BufferLoad(buffer, [at]), term), [at])

    def total(self) -> ir.Expr:
        """All vectors and lanes combined, by halves."""
        if self._last is not None:
            with T.vectorized(self._tail) as lane:
                self._into(lane, tirx.BufferLoad(self._last, [lane]))
        length = VECTORS * self._width
        while length > 1:
            length //= 2
            # No operation is wider than a vector.
            lanes = min(length, self._width)
            with T.unroll(length // lanes) as vector, T.vectorized(lanes) as lane:
                at = vector * lanes + lane
                self._into(at, tirx.BufferLoad(self._main, [at + length]))
        return T.bind(tirx.BufferLoad(self._main, [0]))

    def _into(self, at: ir.Expr, value: ir.Expr) -> None:
        old = tirx.BufferLoad(self._main, [at])
        T.buffer_store(self._main, self._combine(old, value), [at])


@contextmanager
def row_kernel(name: str) -> Iterator[Callable[[], tirx.PrimFunc]]:
    """The arguments and body of a private kernel; what it yields gives the kernel after it."""
    made = []
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_name(name)
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            yield lambda: made[0]
        made.append(builder.get())


@contextmanager
def rows(count: int, elements: int) -> Iterator[ir.Expr]:
    """A loop over rows, on several threads where all of them have many elements."""
    loop = T.parallel if elements >= PARALLEL_ELEMENTS and count > 1 else T.serial
    with loop(count) as row, T.sblock("row"):
        yield T.axis.spatial(count, row)
