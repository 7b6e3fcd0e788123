"""Passes over the elements of a row, in vectors: the parts that normalisations are made of.

A row is some segments, each of elements that lie side by side: the planes of a channel, or the last
dimensions of a tensor. A pass sums over it, or writes it. Sums are kept in several vectors at once:
one would wait for itself, and many short sums lose fewer digits than a long one. On a GPU a team of
work-items shares a row: each takes every so manieth element, the same ones in each pass.

All of this is emitted into the open block of an IR builder.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import unflatten
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

# Vectors that a sum is kept in: an addition takes about as many cycles.
VECTORS = 4
# Steps of a team that are written out, so that their loads need not wait for each other.
_AT_ONCE = 4
# Below this many elements a kernel is not worth a second thread.
PARALLEL_ELEMENTS = 1 << 14


@dataclass(frozen=True)
class Team:
    """Work-items of a GPU that share a row, in place of the lanes of vectors.

    Attributes:
        items: a power of two.
        groups: teams that keep the GPU busy.
    """

    items: int
    groups: int = 1


Lanes = int | Team

# From the segment and the position in it to values there, or to nothing: it stores them.
Terms = Callable[[ir.Expr, ir.Expr], Sequence[ir.Expr]]
Body = Callable[[ir.Expr, ir.Expr], None]
Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]


def add(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Adds two values, as most passes combine them."""
    return left + right


@dataclass(frozen=True)
class Row:
    """The elements that a pass runs over.

    Attributes:
        segments: number of segments.
        size: elements of a segment.
        lanes: elements of a vector, a power of two; shorter segments have shorter vectors. Or the
            team that shares the row.
        dtype: of sums.
    """

    segments: int
    size: int
    lanes: Lanes
    dtype: str = "float32"

    @property
    def width(self) -> int:
        """Elements of a vector: the largest power of two that fits."""
        return min(_items(self.lanes), 1 << (self.size.bit_length() - 1))

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
        if isinstance(self.lanes, Team):
            self._share(body)
            return

        def vector(segment: ir.Expr, start: ir.Expr, _: ir.Expr | int, width: int) -> None:
            with T.vectorized(width) as lane:
                body(segment, start + lane)

        self.vectors(vector)

    def fold(
        self, terms: Terms, start: float = 0.0, combine: Combine = add, count: int = 1
    ) -> list[ir.Expr]:
        """Combines each of `count` terms over all elements."""
        if isinstance(self.lanes, Team):
            return self._fold_shared(terms, (start, combine), count)
        made = [_Accumulator(self, start, combine) for _ in range(count)]

        def vector(segment: ir.Expr, at: ir.Expr, slot: ir.Expr | int, elements: int) -> None:
            with T.vectorized(elements) as lane:
                for accumulator, term in zip(made, terms(segment, at + lane), strict=True):
                    accumulator.take(slot, lane, elements, term)

        self.vectors(vector)
        return [accumulator.total() for accumulator in made]

    def _share(self, body: Body) -> None:
        """Runs a body for each element of the row, by the item of the team that has it."""
        items, item, total = _items(self.lanes), _ITEM.get(), self.segments * self.size
        # Steps, and those in which every item has an element.
        steps, whole = -(-total // items), total // items

        def place(step: ir.Expr) -> ir.Expr:
            return step * items + item

        def take(step: ir.Expr) -> None:
            body(*unflatten(place(step), [self.segments, self.size]))

        turns, rest = divmod(whole, _AT_ONCE)
        if turns:
            with T.serial(turns) as turn, T.unroll(_AT_ONCE) as number:
                take(turn * _AT_ONCE + number)
        if rest:
            with T.serial(rest) as step:
                take(turns * _AT_ONCE + step)
        if steps > whole:
            with T.serial(steps - whole) as late, T.If(place(whole + late) < total), T.Then():
                take(whole + late)

    def _fold_shared(self, terms: Terms, rule: tuple[float, Combine], count: int) -> list[ir.Expr]:
        """The terms of each item, then those of all, by halves, in memory that the team shares."""
        (start, combine), items, item = rule, _items(self.lanes), _ITEM.get()
        own = T.sblock_alloc_buffer((count,), self.dtype, scope="local")
        shared = [T.sblock_alloc_buffer((items,), self.dtype, scope="shared") for _ in range(count)]
        for number in range(count):
            T.buffer_store(own, tirx.const(start, self.dtype), [number])

        def take(segment: ir.Expr, at: ir.Expr) -> None:
            for number, term in enumerate(terms(segment, at)):
                T.buffer_store(own, combine(own[number], term), [number])

        self._share(take)
        for number in range(count):
            T.buffer_store(shared[number], own[number], [item])
        half = items // 2
        while half:
            for each in shared:
                with T.If(item < half), T.Then():
                    T.buffer_store(each, combine(each[item], each[item + half]), [item])
            half //= 2
        found = T.sblock_alloc_buffer((count,), self.dtype, scope="local")
        for number in range(count):
            T.buffer_store(found, shared[number][0], [number])
        return [T.bind(found[number]) for number in range(count)]


# The work-item of the team that the open kernel is being written for.
_ITEM: ContextVar[ir.Expr] = ContextVar("item")


def _items(lanes: Lanes) -> int:
    """How many elements are taken at once."""
    return lanes.items if isinstance(lanes, Team) else lanes


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
def rows(count: int, elements: int, lanes: Lanes) -> Iterator[ir.Expr]:
    """A loop over rows, on several threads where all of them have many elements.

    Args:
        count: of rows.
        elements: of all of them.
        lanes: as those of the rows; each team has a row.
    """
    if isinstance(lanes, Team):
        with teams(lanes, count) as row:
            yield row
        return
    loop = T.parallel if elements >= PARALLEL_ELEMENTS and count > 1 else T.serial
    with loop(count) as row, T.sblock("row"):
        yield T.axis.spatial(count, row)


@contextmanager
def teams(team: Team, count: int) -> Iterator[ir.Expr]:
    """A launch of a team for each row; yields the row."""
    with (
        T.thread_binding(count, "blockIdx.x") as group,
        T.thread_binding(team.items, "threadIdx.x") as item,
        T.sblock("row"),
    ):
        before = _ITEM.set(T.axis.spatial(team.items, item))
        yield T.axis.spatial(count, group)
        _ITEM.reset(before)
