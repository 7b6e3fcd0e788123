"""What becomes of a product's results: the tail of each, and vectors of neighbours as stores.

An item has some rows of results, of which neighbours lie side by side in memory. What the tail
reads there is read in vectors and before anything else, so that one load does not wait for another:
no read is behind a branch. Where a tile goes over the edge, the nearest results inside are read,
and nothing is stored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.runs import run_of
from odtc.backends.gpu.tiling import ProductExtent
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import ramp, vector_type
from odtc.backends.kernels.product.fused import Tail

# Matrix, row and column of a result, and from there to its place in the tensor.
Place = Callable[[ir.Expr, ir.Expr, ir.Expr], list[ir.Expr]]
_TYPE = "float32"


@dataclass(frozen=True)
class Results:
    """The tensor of a product's results.

    Attributes:
        tensor: to store to.
        tail: of a place and a value there, to what is stored.
        place: of a result.
        side_by_side: the first axis of the tensor of which columns of a row are all elements, one
            after the other; None where they lie apart.
    """

    tensor: tirx.Buffer
    tail: Tail
    place: Place
    side_by_side: int | None

    def lanes(self, most: int) -> int:
        """Results that are stored at once: of so many columns of an item, at most."""
        run = 1
        if self.side_by_side is not None and str(self.tensor.dtype) == _TYPE:
            run = run_of(self.tensor, self.side_by_side)
        return next(lanes for lanes in (4, 2, 1) if most % lanes == 0 and run % lanes == 0)

    def store(self, n: ir.Expr, m: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        """Emits the store of one."""
        at = self.place(n, m, p)
        T.buffer_store(self.tensor, self.tail(at, value), at)


def within(
    extent: ProductExtent,
    tile: tuple[int, int],
    place: tuple[ir.Expr, ir.Expr, ir.Expr],
    lanes: int,
) -> tuple[tuple[ir.Expr, ir.Expr, ir.Expr], list[ir.Expr]]:
    """The nearest place of so many results inside of a product, and whether that is their own.

    Args:
        extent: of the product.
        tile: its rows and columns; the last tiles go over the edge unless these divide the extent.
        place: matrix, row and first column.
        lanes: of the results.
    """
    (n, m, p), tests = place, []
    if extent.rows % tile[0]:
        tests.append(m < extent.rows)
        m = tirx.min(m, index(extent.rows - 1))
    if extent.columns % tile[1]:
        tests.append(p < extent.columns)
        p = tirx.min(p, index(extent.columns - lanes))
    return (n, m, p), tests


class Stores:
    """The stores of an item: of each of its rows, some vectors.

    Args:
        results: where they go.
        lanes: results in a vector.
        count: vectors of a row.
    """

    def __init__(self, results: Results, lanes: int, count: int) -> None:
        self._results, self._lanes = results, lanes
        shape = results.tensor.shape
        self._at = [tirx.Var(f"at{axis}", "int32") for axis in range(len(shape))]
        self._value = tirx.Var("value", _TYPE)
        self._tail = results.tail(self._at, self._value)
        read: list[ir.TensorLoad] = []
        tvm_ffi.structural_walk(self._tail, (ir.TensorLoad, read.append))
        # What the tail reads, in registers: of each vector of a row.
        self._held: list[tuple[ir.TensorLoad, int, tirx.Buffer]] = []
        for each in read:
            lanes_of = self._lanes_of(each)
            if lanes_of and self._found(each) is None:
                held = _registers(count, str(each.ty.dtype), lanes_of)
                self._held.append((each, lanes_of, held))
        self._stored = _registers(count, str(results.tensor.dtype), lanes)

    @property
    def reads(self) -> bool:
        """Whether the tail reads anything ahead."""
        return bool(self._held)

    def read(self, number: ir.Expr, place: tuple[ir.Expr, ir.Expr, ir.Expr]) -> None:
        """Emits the reads of the tail for a vector of a row, whose first result has this place."""
        at = self._results.place(*place)
        for each, lanes, held in self._held:
            where = self._placed(list(each.indices), at)
            where = [*where[:-1], *(ramp(last, lanes) for last in where[-1:])]
            T.buffer_store(held, tirx.BufferLoad(each.source, where), [number])

    def write(
        self,
        number: ir.Expr,
        place: tuple[ir.Expr, ir.Expr, ir.Expr],
        inside: tuple[ir.Expr, ir.Expr, ir.Expr],
        values: Sequence[ir.Expr],
        tests: Sequence[ir.Expr],
    ) -> None:
        """Emits the store of a vector of a row, where tests hold.

        Args:
            number: of the vector.
            place: of its first result.
            inside: the same where tests hold, and any place of the tensor where they don't.
            values: of the product.
            tests: conditions under which the place is one of the tensor.
        """
        n, m, p = inside
        lanes = [
            self._applied(self._results.place(n, m, p + lane), value, number, lane)
            for lane, value in enumerate(values)
        ]
        whole = lanes[0] if len(lanes) == 1 else tirx.Shuffle(lanes, list(range(len(lanes))))
        T.buffer_store(self._stored, whole, [number])

        def store() -> None:
            *outer, last = self._results.place(*place)
            where = [*outer, ramp(last, self._lanes)]
            T.buffer_store(self._results.tensor, self._stored[number], where)

        if not tests:
            store()
            return
        with T.If(tirx.all(*tests)), T.Then():
            store()

    def _applied(
        self, at: Sequence[ir.Expr], value: ir.Expr, number: ir.Expr, lane: int
    ) -> ir.Expr:
        """The tail of a value, which reads what is held."""

        def load(read: ir.TensorLoad) -> ir.Expr:
            if (found := self._found(read)) is None:
                return read
            lanes, held = found
            element = tirx.BufferLoad(held, [number])
            return element if lanes == 1 else tirx.Shuffle([element], [lane])

        held = tvm_ffi.structural_map(self._tail, (ir.TensorLoad, load))
        places = {**dict(zip(self._at, at, strict=True)), self._value: value}
        return tvm_ffi.structural_map(held, (ir.Var, lambda each: places.get(each, each)))

    def _found(self, read: ir.TensorLoad) -> tuple[int, tirx.Buffer] | None:
        for each, lanes, held in self._held:
            if each.source.same_as(read.source) and tvm_ffi.structural_equal(
                list(each.indices), list(read.indices)
            ):
                return lanes, held
        return None

    def _lanes_of(self, read: ir.TensorLoad) -> int:
        """Lanes of a vector that has a read of all results of a vector; 0 where none has.

        Its place is inside for every result, and is the same for all of them or counts as theirs.
        """
        source, shape = read.source, self._results.tensor.shape
        if str(read.ty.dtype) != _TYPE or not isinstance(source, tirx.Buffer):
            return 0
        axes = [self._axis(each) for each in read.indices]
        for axis, size, at in zip(axes, source.shape, read.indices, strict=True):
            is_first = isinstance(at, tirx.IntImm) and int(at) == 0
            if not is_first and (axis is None or int(size) != int(shape[axis])):
                return 0
        first = self._results.side_by_side
        moving = range(len(shape))[len(shape) - 1 if first is None else first :]
        if self._lanes == 1 or not any(axis in moving for axis in axes):
            return 1
        inner = [axis for axis in moving if int(shape[axis]) > 1]
        own = [axis for axis in axes if axis in inner]
        is_last = own == inner and axes[len(axes) - len(moving) :] == list(moving)
        return self._lanes if is_last else 0

    def _axis(self, at: ir.Expr) -> int | None:
        return next((axis for axis, each in enumerate(self._at) if each.same_as(at)), None)

    def _placed(self, indices: Sequence[ir.Expr], at: Sequence[ir.Expr]) -> list[ir.Expr]:
        return [each if (axis := self._axis(each)) is None else at[axis] for each in indices]


def _registers(count: int, dtype: str, lanes: int) -> tirx.Buffer:
    return T.sblock_alloc_buffer((count,), vector_type(dtype, lanes), scope="local")
