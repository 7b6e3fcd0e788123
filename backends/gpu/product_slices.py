"""The slices of a product's operands, copied to the memory that a group shares.

Operands are functions to an element. What they read lies side by side along the sum or along the
result, and the items of a group read it in that order.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.coded.codes import HeldCodes, codes_at_once
from odtc.backends.gpu.matrix.grid import pitch_of
from odtc.backends.gpu.multiply import Arithmetic
from odtc.backends.gpu.tiling import apart, parts_of
from odtc.backends.kernels.common.places import index, rounded
from odtc.backends.kernels.common.quantised import Quantised
from odtc.backends.kernels.common.vectors import ramp, splat, vector_type


@dataclass(frozen=True)
class ProductTerm:
    """A term of a sum.

    Attributes:
        flat: its number among all.
        slice: the number of its slice.
        k: its number in the slice.
        terms: of a slice.
    """

    flat: ir.Expr
    slice: ir.Expr
    k: ir.Expr
    terms: int

    def split(self, period: int) -> tuple[ir.Expr, ir.Expr]:
        """Returns its quotient and remainder by a period of so many terms.

        Where slices do not cross from one period to the next, the quotient is the same for a whole
        slice, and its expression shows it.
        """
        if period % self.terms:
            return self.flat // period, self.flat % period
        slices = period // self.terms
        return self.slice // slices, self.slice % slices * self.terms + self.k


# Elements of an operand that a work-item reads at once, if they lie side by side.
_AT_ONCE = 4
Read = Callable[[ir.Expr, ir.Expr, ProductTerm], ir.Expr]


@dataclass(frozen=True)
class ProductOperand:
    """One side of a product.

    Attributes:
        read: `(n, at, term)` to an element: of matrix `n`, row or column `at`.
        along_sum: whether neighbouring terms lie side by side; those in `at` do, otherwise.
        run: elements that lie side by side in that order, from a multiple of their vectors on, each
            a plain read of a tensor; 1 where that is not so. It divides the length of that order.
        codes: the matrix that the elements are dequantised from, whose columns are that order.
    """

    read: Read
    along_sum: bool
    run: int = 1
    codes: Quantised | None = None

    def lanes(self, terms: int, width: int) -> int:
        """Elements to read at once, for slices of so many terms by a width.

        The smallest tiles have no vector of a row.
        """
        if self.codes:
            lanes = codes_at_once(self.codes)
        else:
            lanes = _AT_ONCE if self.run % _AT_ONCE == 0 else 1
        is_whole = (terms if self.along_sum else width) % lanes == 0
        return lanes if is_whole else 1


class Shared:
    """Memory of a group for a slice of an operand: `[k, at]`, or `[at, k]` for matrices.

    Matrices are read by rows or columns, as they lie; so what is copied keeps its order.

    Args:
        arithmetic: of the product.
        width: rows or columns of it.
        along_sum: whether items side by side write terms side by side. In `[k, at]` these are other
            rows, and lie a vector apart in the banks of the memory, so that no item waits for
            another.
    """

    def __init__(self, arithmetic: Arithmetic, width: int, along_sum: bool) -> None:
        self.terms, self.width, self.dtype = arithmetic.terms, width, arithmetic.dtype
        self._is_turned = along_sum and arithmetic.subgroup > 0
        if arithmetic.subgroup:
            self._pitch = pitch_of(self.terms, width, along_sum=along_sum)
        else:
            self._pitch = width + (apart(self.terms) if along_sum else 0)
        rows = width if self._is_turned else self.terms
        self._buffer = T.sblock_alloc_buffer((rows * self._pitch,), self.dtype, scope="shared")

    def write(self, k: ir.Expr, at: ir.Expr, value: ir.Expr) -> None:
        """Emits a store of an element, or of neighbours in the order of the memory."""
        lanes = value.ty.dtype.lanes
        T.buffer_store(self._buffer, value, [ramp(self._place(k, at), lanes)])

    def keeps(self, along_sum: bool) -> bool:
        """Whether neighbours of this order lie side by side, too."""
        return self._is_turned == along_sum

    def read(self, k: ir.Expr, at: ir.Expr, lanes: int) -> ir.Expr:
        """Neighbours along the width, as a vector."""
        return tirx.BufferLoad(self._buffer, [ramp(self._place(k, at), lanes)])

    def matrix(self, k: int, at: ir.Expr) -> tuple[ir.Expr, int, bool]:
        """The place of a matrix, as `MatrixSums.add` takes it."""
        pointer = tirx.address_of(self._buffer[self._place(k, at)])
        return pointer, self._pitch, self._is_turned

    def _place(self, k: int | ir.Expr, at: ir.Expr) -> ir.Expr:
        return at * self._pitch + k if self._is_turned else k * self._pitch + at


@dataclass(frozen=True)
class Slices:
    """How a sum is cut into slices: of `terms` each, and the last of what is left."""

    depth: int
    terms: int

    @property
    def count(self) -> int:
        """Number of slices."""
        return parts_of(self.depth, self.terms)

    def term(self, number: ir.Expr, k: ir.Expr) -> tuple["ProductTerm", list[ir.Expr]]:
        """A term of a slice, and the condition under which it exists."""
        flat = number * self.terms + k
        is_whole = self.depth % self.terms == 0
        return ProductTerm(flat, number, k, self.terms), [] if is_whole else [flat < self.depth]


class Copy:
    """The copy of slices `[k, at]` of an operand, with zeros past the last term.

    Args:
        near: shared memory to copy to.
        operand: to copy from.
        slices: of the sum.
        place: the matrix, the first row or column, and how many the operand has.
        item: number of the work-item, and how many there are.
    """

    def __init__(
        self,
        near: Shared,
        operand: ProductOperand,
        slices: Slices,
        place: tuple[ir.Expr, ir.Expr, int],
        item: tuple[ir.Expr, int],
    ) -> None:
        self._near, self._operand, self._slices, self._where = near, operand, slices, place
        self._number, self._items = item
        self._lanes = operand.lanes(near.terms, near.width)
        self._size = near.terms * near.width // self._lanes
        # Along the width, all turns of an item have one place: where a window lies is found once.
        # Vectors are of no windows that a place has to be found in.
        row = 1 if operand.along_sum or self._lanes > 1 else near.width
        self._step = self._items // row * row or self._items
        self._turns = parts_of(self._size, self._step)
        self._codes = None
        if operand.codes and self._lanes > 1:
            self._codes = HeldCodes(operand.codes, self._turns)
            return
        of_many = vector_type(near.dtype, self._lanes)
        self._held = T.sblock_alloc_buffer((self._turns,), of_many, scope="local")

    def fetch(self, number: ir.Expr, end: ir.Expr) -> None:
        """Emits the reads of the elements of a slice, into registers; zeros past the last term.

        What is read from slice `end` on, nothing uses. Zeros would be as good, but where a read is
        chosen between an element and zero, NVIDIA's compiler for OpenCL moves it behind all that is
        multiplied meanwhile. Through Vulkan, reading the last slice again was faster than a branch.
        """
        target = tvm.target.Target.current(allow_none=True)
        if target and str(target.kind) == "opencl":
            with T.If(number < end), T.Then():
                self._read(number)
        else:
            self._read(tirx.min(number, end - 1))

    def _read(self, number: ir.Expr) -> None:
        n, first, length = self._where
        zero = splat(tirx.const(0.0, self._near.dtype), self._lanes)
        with T.unroll(self._turns) as turn:
            k, at = self._place(turn)
            term, is_there = self._slices.term(number, k)
            at = first + at
            if length % self._near.width:
                # Of a row past the last one, which nobody stores, the last one is as good.
                at = tirx.min(at, index(length - (1 if self._operand.along_sum else self._lanes)))
            tests = [*is_there, *self._exists(turn)]
            if self._codes:
                row, column = (at, term.flat) if self._operand.along_sum else (term.flat, at)
                self._codes.keep(turn, tests, row, column)
                return
            value = self._operand.read(n, at, term)
            if self._lanes > 1:
                value = neighbours(_as_stored(value), self._lanes)
            value = rounded(value, self._near.dtype)
            if tests:
                value = tirx.if_then_else(tirx.all(*tests), value, zero)
            T.buffer_store(self._held, value, [turn])

    def put(self) -> None:
        """Emits the writes of the fetched elements to shared memory."""
        with T.unroll(self._turns) as turn:

            def write(turn: ir.Expr = turn) -> None:
                (k, at), behind = self._place(turn), 0
                for value in self._codes.floats(turn) if self._codes else [self._held[turn]]:
                    behind += self._write((k, at), behind, value)

            if tests := self._exists(turn):
                with T.If(tirx.all(*tests)), T.Then():
                    write()
            else:
                write()

    def _write(self, place: tuple[ir.Expr, ir.Expr], behind: int, value: ir.Expr) -> int:
        """Emits a store of neighbours, so many elements behind a place; returns their number."""
        (k, at), lanes = place, value.ty.dtype.lanes
        value = rounded(value, self._near.dtype)
        if not self._operand.along_sum:
            self._near.write(k, at + behind, value)
        elif lanes == 1 or self._near.keeps(along_sum=True):
            self._near.write(k + behind, at, value)
        else:
            for lane in range(lanes):
                self._near.write(k + behind + lane, at, tirx.Shuffle([value], [lane]))
        return lanes

    def _exists(self, turn: ir.Expr) -> list[ir.Expr]:
        """Conditions under which an item copies something in a turn."""
        tests = []
        if self._step < self._items:
            tests.append(self._number < self._step)
        if self._turns * self._step > self._size:
            tests.append(turn * self._step + self._number < self._size)
        return tests

    def _place(self, turn: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the first element that an item copies in a turn.

        Items side by side copy what lies side by side in memory.
        """
        flat, lanes = turn * self._step + self._number, self._lanes
        if self._operand.along_sum:
            vectors = self._near.terms // lanes
            return flat % vectors * lanes, flat // vectors
        vectors = self._near.width // lanes
        return flat // vectors, flat % vectors * lanes


def _as_stored(element: ir.Expr) -> ir.Expr:
    """A plain read of a tensor without the conversion of what it reads."""
    return element.value if isinstance(element, tirx.Cast) else element


def neighbours(element: ir.Expr, lanes: int) -> ir.Expr:
    """A plain read of a tensor as that of so many elements from there on."""
    if lanes == 1:
        return element
    assert isinstance(element, ir.TensorLoad), element
    *outer, last = element.indices
    return tirx.BufferLoad(element.source, [*outer, ramp(last, lanes)])
