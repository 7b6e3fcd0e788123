"""Products of attention: slices of matrices come to the memory of a group, one after the other."""

from collections.abc import Sequence

import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.attention.memory import AT_ONCE, barrier
from odtc.backends.gpu.attention.tile import APART, AttentionTile, columns_of
from odtc.backends.gpu.multiply import ACROSS, Accumulators, Slice
from odtc.backends.kernels.attention.layout import Matrix
from odtc.backends.kernels.common.places import index, rounded
from odtc.backends.kernels.common.vectors import ramp, splat, vector_type


class StepSlices:
    """Slices of steps of a head, `[term, at]`; with zeros where the matrix has nothing.

    Args:
        tile: the tile.
        near: memory of the group to copy to.
        matrix: the head's, `[steps, elements]`.
        first: the first step.
        steps: that are read from there on.
        is_sum: whether terms are elements of a step, and `at` counts steps; terms are steps, and
            `at` counts elements, otherwise.
        item: number of the item.
    """

    def __init__(
        self,
        tile: AttentionTile,
        near: tirx.Buffer,
        matrix: Matrix,
        first: ir.Expr,
        steps: int,
        *,
        is_sum: bool,
        item: ir.Expr,
    ) -> None:
        self._tile, self._near, self._matrix, self._first = tile, near, matrix, first
        self._is_sum, self._item, self._steps = is_sum, item, steps
        buffer = matrix.argument.buffer
        self._total, self._size = _steps_of(matrix), int(buffer.shape[3])
        is_plain = str(buffer.dtype) == "float32" and self._size % AT_ONCE == 0
        self._lanes = AT_ONCE if is_plain else 1
        self._width = steps if is_sum else columns_of(self._size) * ACROSS
        self._pitch = self._width + (APART if is_sum else 0)
        self._count = tile.terms * self._width // self._lanes
        self._turns = -(-self._count // tile.items)
        of_many = vector_type("float32", self._lanes)
        self._held = T.sblock_alloc_buffer((self._turns,), of_many, scope="local")

    @property
    def slices(self) -> int:
        """Number of slices, at most."""
        terms = self._size if self._is_sum else self._steps
        return -(-terms // self._tile.terms)

    @property
    def count(self) -> ir.Expr:
        """Number of slices that the matrix has something in."""
        if self._is_sum or self._total % self._steps == 0:
            return index(self.slices)
        terms = self._tile.terms
        left = (self._total - self._first + (terms - 1)) // terms
        return T.Bind(tirx.min(left, index(self.slices)))

    def fetch(self, number: ir.Expr) -> None:
        """Emits the reads of a slice, into registers."""
        terms = self._tile.terms
        with T.unroll(self._turns) as turn:
            k, at = self._place(turn)
            term = number * terms + k
            step, element = (at, term) if self._is_sum else (term, at)
            tests = self._tests(turn)
            if self._total % self._steps:
                tests.append(self._first + step < self._total)
            if self._size % (terms if self._is_sum else ACROSS):
                tests.append(element < self._size)
            place = self._matrix.place(self._first + step, ramp(element, self._lanes))
            value = tirx.BufferLoad(self._matrix.argument.buffer, place)
            value = rounded(value, "float32")
            if tests:
                zero = splat(tirx.const(0.0, "float32"), self._lanes)
                value = tirx.if_then_else(tirx.all(*tests), value, zero)
            T.buffer_store(self._held, value, [turn])

    def put(self) -> None:
        """Emits the writes of what was read."""
        with T.unroll(self._turns) as turn:
            tests = self._tests(turn)
            if tests:
                with T.If(tirx.all(*tests)), T.Then():
                    self._write(turn)
            else:
                self._write(turn)

    def read(self, k: ir.Expr, at: ir.Expr, lanes: int) -> ir.Expr:
        """Neighbours along the width, as a vector."""
        return tirx.BufferLoad(self._near, [ramp(k * self._pitch + at, lanes)])

    def _write(self, turn: ir.Expr) -> None:
        (k, at), value = self._place(turn), self._held[turn]
        if not self._is_sum:
            T.buffer_store(self._near, value, [ramp(k * self._pitch + at, self._lanes)])
            return
        for lane in range(self._lanes):
            part = value if self._lanes == 1 else tirx.Shuffle([value], [index(lane)])
            T.buffer_store(self._near, part, [(k + lane) * self._pitch + at])

    def _tests(self, turn: ir.Expr) -> list[ir.Expr]:
        if self._count % self._tile.items == 0:
            return []
        return [turn * self._tile.items + self._item < self._count]

    def _place(self, turn: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """The first element that an item copies in a turn; items side by side read neighbours."""
        flat, lanes = turn * self._tile.items + self._item, self._lanes
        across = (self._tile.terms if self._is_sum else self._width) // lanes
        inner, outer = flat % across * lanes, flat // across
        return (inner, outer) if self._is_sum else (outer, inner)


def multiply(
    to: Accumulators,
    copies: Sequence[StepSlices],
    left: Slice | None,
    place: tuple[ir.Expr, ir.Expr],
    terms: int,
) -> None:
    """Emits the product of all slices, added to the sums; the group's slices are free after it.

    Slices past the end of the matrix are left out.

    Args:
        to: the sums.
        copies: of the rows, if there is no `left`, and of the columns.
        left: `(k, row, lanes)` to what the group has of the rows already, for all slices.
        place: the item's first row, and its number across.
        terms: of a slice.
    """
    *_, right = copies
    row, x = place
    count = right.count
    for copy in copies:
        copy.fetch(index(0))
    with T.serial(count) as number:
        for copy in copies:
            copy.put()
        barrier()
        # While this slice is multiplied, the next one is being loaded.
        if right.slices > 1:
            _fetch_next(copies, number + 1, count)
        if left is None:
            to.add(copies[0].read, right.read, row, x)
        else:
            to.add(lambda k, at, lanes: left(number * terms + k, at, lanes), right.read, row, x)
        barrier()


def _fetch_next(copies: Sequence[StepSlices], number: ir.Expr, count: ir.Expr) -> None:
    """Emits the reads of a slice, or of none past the last: as products do (`product.py`)."""
    target = tvm.target.Target.current(allow_none=True)
    if target and str(target.kind) == "opencl":
        with T.If(number < count), T.Then():
            for copy in copies:
                copy.fetch(number)
    else:
        for copy in copies:
            copy.fetch(tirx.min(number, count - 1))


def _steps_of(matrix: Matrix) -> int:
    return int(matrix.argument.buffer.shape[1 if matrix.argument.inner else 2])
