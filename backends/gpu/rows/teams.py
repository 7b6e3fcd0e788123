"""Launches whose groups are teams of work-items: each has a row, or a part of one.

What a team reads it reads before it computes with any of it, in vectors where elements lie so, and
may hold in registers. A driver that cannot tell tensors apart waits with each load for the stores
before it, and through Vulkan nothing is unrolled for us: so loads are bound to names first, and
stores come last.

    row ─read→ values in registers ─combined→ sums of the team ─→ values ─write→ row

Indices beyond the last element are those of the last one, and what is read there counts as zero:
a team takes part in all barriers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.common.vectors import ramp, splat

# Floats of a vector of a tensor: both code generators read and write so many at once, and take for
# granted that they lie at a multiple of their size.
VECTOR = 4

# From the segment and the position in it, or those of neighbours, to a value.
At = Callable[[ir.Expr, ir.Expr], ir.Expr]


def width_of(size: int, *dtypes: str) -> int:
    """Elements of a vector, of rows of so many elements in tensors of these types."""
    return VECTOR if size % VECTOR == 0 and set(dtypes) == {"float32"} else 1


@contextmanager
def launch(groups: int, items: int) -> Iterator[tuple[ir.Expr, ir.Expr]]:
    """So many groups of items; yields the numbers of a group, and of an item in it."""
    with (
        T.thread_binding(groups, "blockIdx.x") as group,
        T.thread_binding(items, "threadIdx.x") as item,
        T.sblock("group"),
    ):
        yield T.axis.spatial(groups, group), T.axis.spatial(items, item)


@dataclass(frozen=True)
class Held:
    """A row, or a part of one, of whose vectors each item of a team holds some.

    Attributes:
        segments: of the row.
        size: elements of a segment.
        width: elements of a vector, which divides the size.
        items: of the team, a power of two.
        item: the number of one in the team.
        first: the first vector of the part.
        count: vectors that each item holds.
        parts: how many parts of `count * items` vectors the row has.
    """

    segments: int
    size: int
    width: int
    items: int
    item: ir.Expr
    first: ir.Expr | int
    count: int
    parts: int = 1

    @property
    def vectors(self) -> int:
        """Vectors of the row."""
        return self.segments * self.size // self.width

    @property
    def slots(self) -> range:
        """Numbers of the vectors of an item."""
        return range(self.count)

    def read(self, value: At) -> list[ir.Expr]:
        """Emits what is read at each of an item's vectors; zero where there is none."""
        found = [T.bind(value(*self._clamped(slot))) for slot in self.slots]
        return [self._masked(slot, each) for slot, each in enumerate(found)]

    def masked(self, values: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Values of an item's vectors, zero where there is none."""
        return [self._masked(slot, each) for slot, each in enumerate(values)]

    def write(self, store: Callable[[int, ir.Expr, ir.Expr], None]) -> None:
        """Emits a store, of a vector's number in the item, for each vector that there is."""
        for slot in self.slots:
            self.put(slot, store)

    def put(self, slot: int, store: Callable[[int, ir.Expr, ir.Expr], None]) -> None:
        """Emits a store for one of the vectors, if there is one."""
        at = self._at(self._vector(slot))
        if self._is_whole(slot):
            store(slot, *at)
            return
        with T.If(self._vector(slot) < self.vectors), T.Then():
            store(slot, *at)

    def _vector(self, slot: int) -> ir.Expr:
        return self.first + (self.item + slot * self.items)

    def _is_whole(self, slot: int) -> bool:
        """Whether all items of all parts have such a vector."""
        before = (self.parts - 1) * self.count * self.items
        return before + (slot + 1) * self.items <= self.vectors

    def _clamped(self, slot: int) -> list[ir.Expr]:
        vector = self._vector(slot)
        return self._at(vector if self._is_whole(slot) else tirx.min(vector, self.vectors - 1))

    def _at(self, vector: ir.Expr) -> list[ir.Expr]:
        segment, place = unflatten(vector, [self.segments, self.size // self.width])
        return [segment, ramp(place * self.width if self.width > 1 else place, self.width)]

    def _masked(self, slot: int, value: ir.Expr) -> ir.Expr:
        return value if self._is_whole(slot) else where(self._vector(slot) < self.vectors, value)


def where(condition: ir.Expr, value: ir.Expr) -> ir.Expr:
    """Emits a value that has a name, or zero."""
    dtype = value.ty.dtype
    zero = splat(tirx.const(0.0, str(dtype).partition("x")[0]), dtype.lanes)
    # Not a `Select`: OpenCL chooses each lane of a vector by another bit than TVM sets.
    # In memory of the item: TVM would write the choice again wherever a name of it is used.
    chosen = T.sblock_alloc_buffer((1,), str(dtype), scope="local")
    T.buffer_store(chosen, tirx.if_then_else(condition, value, zero), [0])
    return T.bind(chosen[0])


def lanes_of(value: ir.Expr) -> list[ir.Expr]:
    """The elements of a vector, which has a name; a scalar as it is."""
    lanes = value.ty.dtype.lanes
    return [value] if lanes == 1 else [tirx.Shuffle([value], [lane]) for lane in range(lanes)]


def each_lane(change: Callable[[ir.Expr], ir.Expr], value: ir.Expr) -> ir.Expr:
    """Emits a vector, which has a name, changed element by element; or a scalar."""
    lanes = [change(lane) for lane in lanes_of(value)]
    return T.bind(lanes[0] if len(lanes) == 1 else tirx.Shuffle(lanes, list(range(len(lanes)))))


def added(values: Sequence[ir.Expr]) -> ir.Expr:
    """The sum of some values, by halves."""
    while len(values) > 1:
        pairs = [sum(values[at + 1 : at + 2], values[at]) for at in range(0, len(values), 2)]
        values = pairs
    return values[0]


def total_of(values: Sequence[ir.Expr]) -> ir.Expr:
    """Emits the sum of all elements of an item's vectors."""
    whole = T.bind(added(list(values)))
    return T.bind(added(lanes_of(whole)))


def combined(values: Sequence[ir.Expr], item: ir.Expr, group: int, items: int) -> list[ir.Expr]:
    """Emits the sums of what the items of each team of a group have, which all of these know.

    Args:
        values: of an item, scalars.
        item: its number in the group.
        group: items of it.
        items: of a team, a power of two; items that follow each other.
    """
    if items == 1:
        return list(values)
    shared = shared_of(values, item, group)
    fold(shared, item, item % items, items, 1)
    first = item - item % items if items < group else index(0)
    return [T.bind(each[first]) for each in shared]


def shared_of(values: Sequence[ir.Expr], item: ir.Expr, group: int) -> list[tirx.Buffer]:
    """Emits arrays of shared memory with a value of each item of a group."""
    shared = arrays_of(values, group)
    put(shared, values, item)
    return shared


def arrays_of(values: Sequence[ir.Expr], group: int) -> list[tirx.Buffer]:
    """Arrays of shared memory for such values of each item of a group."""
    kinds = [str(each.ty.dtype) for each in values]
    return [T.sblock_alloc_buffer((group,), kind, scope="shared") for kind in kinds]


def put(shared: Sequence[tirx.Buffer], values: Sequence[ir.Expr], item: ir.Expr) -> None:
    """Emits the stores of an item's values in shared memory."""
    for each, value in zip(shared, values, strict=True):
        T.buffer_store(each, value, [item])


def fold(
    shared: Sequence[tirx.Buffer], item: ir.Expr, number: ir.Expr, count: int, apart: int
) -> None:
    """Emits sums of values in shared memory by halves, into the first ones.

    Args:
        shared: arrays, of which each item of a group has an element.
        item: the number of one.
        number: of its value among those that are added.
        count: of these, a power of two.
        apart: places from one of these to the next.
    """
    half = count // 2
    while half:
        # The condition is of each array by itself: TVM places barriers between statements.
        for each in shared:
            with T.If(number < half), T.Then():
                T.buffer_store(each, each[item] + each[item + half * apart], [item])
        half //= 2
