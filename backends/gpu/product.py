"""The inner loops of every product on a GPU: a tile of results for each work-group.

A group copies a slice of both operands into the memory that it shares, and each of its items
multiplies some rows by some columns of these, in registers (Volkov and Demmel, "Benchmarking GPUs
to tune dense linear algebra", 2008). Where there are too few tiles to keep the GPU busy, the sum is
cut into parts that other groups take, and that a second kernel adds up in a fixed order.

Where the GPU multiplies float16, what the group shares is rounded to it (`multiply.py`).

Operands are functions to an element. What they read lies side by side along the sum or along the
result, and the items of a group read it in that order.
"""

from collections.abc import Callable
from dataclasses import dataclass

import tvm
from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.multiply import ACROSS, Accumulators
from odtc.backends.gpu.product_results import Results, Stores
from odtc.backends.gpu.tiling import ProductExtent, Tiling, apart, parts_of, tiling_of
from odtc.backends.kernels.common.places import index, rounded
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


Read = Callable[[ir.Expr, ir.Expr, ProductTerm], ir.Expr]
# Elements of an operand that a work-item reads at once, if they lie side by side.
_AT_ONCE = 4
# Parts of a sum that are on their way at once.
_PARTS_AT_ONCE = 16


@dataclass(frozen=True)
class ProductOperand:
    """One side of a product.

    Attributes:
        read: `(n, at, term)` to an element: of matrix `n`, row or column `at`.
        along_sum: whether neighbouring terms lie side by side; those in `at` do, otherwise.
        run: elements that lie side by side in that order, from a multiple of their vectors on, each
            a plain read of a tensor; 1 where that is not so. It divides the length of that order.
    """

    read: Read
    along_sum: bool
    run: int = 1

    @property
    def lanes(self) -> int:
        """Elements to read at once."""
        return _AT_ONCE if self.run % _AT_ONCE == 0 else 1


def emit_product(
    extent: ProductExtent,
    left: ProductOperand,
    right: ProductOperand,
    results: Results,
    gpu: Gpu,
) -> None:
    """Emits a product into the open block of an IR builder.

    Args:
        extent: its sizes.
        left: the operand of the rows.
        right: that of the columns.
        results: where they go.
        gpu: the machine.
    """
    if extent.depth == 0:
        _emit_sums(extent, None, results, gpu)
        return
    tiling = tiling_of(extent, gpu)
    if tiling.splits == 1:
        _emit_tiles(extent, tiling, left, right, lambda _: results)
        return
    parts = T.sblock_alloc_buffer(
        (tiling.splits, extent.batch * extent.rows, extent.columns), "float32"
    )

    def of_part(part: ir.Expr) -> Results:
        return Results(
            parts, lambda _, value: value, lambda n, m, p: [part, n * extent.rows + m, p], 2
        )

    _emit_tiles(extent, tiling, left, right, of_part)
    _emit_sums(extent, parts, results, gpu)


def _emit_tiles(
    extent: ProductExtent,
    tiling: Tiling,
    left: ProductOperand,
    right: ProductOperand,
    results: Callable[[ir.Expr], Results],
) -> None:
    """Emits the kernel of the tiles; `results` is from a part of the sums to where they go."""
    height, width = tiling.height, tiling.width
    down, across = parts_of(extent.rows, height), parts_of(extent.columns, width)
    terms, dtype = tiling.arithmetic.terms, tiling.arithmetic.dtype
    slices = Slices(extent.depth, terms)
    share = parts_of(parts_of(extent.depth, tiling.splits), terms)
    items = tiling.down * ACROSS
    with (
        T.thread_binding(across, "blockIdx.x") as column_tile,
        T.thread_binding(down, "blockIdx.y") as row_tile,
        T.thread_binding(extent.batch * tiling.splits, "blockIdx.z") as task,
        T.thread_binding(items, "threadIdx.x") as item,
        T.sblock("tile"),
    ):
        n, part = (task, index(0)) if tiling.splits == 1 else _both(task, tiling.splits)
        near_left = Shared(terms, height, left.along_sum, dtype)
        near_right = Shared(terms, width, right.along_sum, dtype)
        accumulators = Accumulators(tiling.rows, tiling.columns, tiling.arithmetic)
        m0, p0 = row_tile * height, column_tile * width
        y, x = item // ACROSS, item % ACROSS
        begin = part * share
        end = tirx.min(begin + share, index(slices.count))
        # The last parts may have fewer slices, or none.
        steps = share if tiling.splits == 1 else tirx.max(end - begin, 0)
        copies = [
            _Copy(near_left, left, slices, (n, m0, extent.rows), (item, items)),
            _Copy(near_right, right, slices, (n, p0, extent.columns), (item, items)),
        ]
        for copy in copies:
            copy.fetch(begin, end)
        with T.serial(steps) as step:
            for copy in copies:
                copy.put()
            T.evaluate(T.tvm_storage_sync("shared"))
            # While this slice is multiplied, the next one is being loaded.
            for copy in copies:
                copy.fetch(begin + step + 1, end)
            accumulators.add(near_left.read, near_right.read, y * tiling.rows, x)
        first = n, m0 + y * tiling.rows, lambda j: p0 + accumulators.column(j, x)
        _emit_stores(extent, tiling, accumulators, results(part), first)


def _emit_stores(
    extent: ProductExtent,
    tiling: Tiling,
    accumulators: Accumulators,
    results: Results,
    first: tuple[ir.Expr, ir.Expr, Callable[[ir.Expr], ir.Expr]],
) -> None:
    """Emits the stores of an item's results.

    Args:
        extent: of the product.
        tiling: of it.
        accumulators: that hold the results.
        results: where they go.
        first: the matrix, the first row, and from an item's column to that of the matrix.
    """
    n, m0, column = first
    lanes = results.lanes(accumulators.wide)
    vectors = tiling.columns // lanes
    stores = Stores(results, lanes, vectors)
    with T.unroll(tiling.rows) as i:
        m, tests = m0 + i, []
        near = m
        if extent.rows % tiling.height:
            near, tests = tirx.min(m, index(extent.rows - 1)), [m < extent.rows]
        is_whole = extent.columns % tiling.width == 0

        def inside(j: ir.Expr) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
            p = column(j * lanes)
            return n, near, p if is_whole else tirx.min(p, index(extent.columns - lanes))

        if stores.reads:
            with T.unroll(vectors) as j:
                stores.read(j, inside(j))
        with T.unroll(vectors) as j:
            values = [
                tirx.BufferLoad(accumulators.results, [i, j * lanes + lane])
                for lane in range(lanes)
            ]
            p = column(j * lanes)
            is_there = tests if is_whole else [*tests, p < extent.columns]
            stores.write(j, (n, m, p), inside(j), values, is_there)


class Shared:
    """Memory of a group for a slice of an operand, `[k, at]`.

    Args:
        terms: of the slice.
        width: rows or columns of it.
        is_across: whether items side by side write terms side by side, so to other rows. These lie
            a vector apart in the banks of the memory, so that no item waits for another.
        dtype: of the elements.
    """

    def __init__(self, terms: int, width: int, is_across: bool, dtype: str) -> None:
        self.terms, self.width, self.dtype = terms, width, dtype
        self._pitch = width + (apart(terms) if is_across else 0)
        self._buffer = T.sblock_alloc_buffer((terms * self._pitch,), dtype, scope="shared")

    def write(self, k: ir.Expr, at: ir.Expr, value: ir.Expr) -> None:
        """Emits a store of an element, or of a vector of neighbours along the width."""
        lanes = value.ty.dtype.lanes
        T.buffer_store(self._buffer, value, [ramp(k * self._pitch + at, lanes)])

    def read(self, k: ir.Expr, at: ir.Expr, lanes: int) -> ir.Expr:
        """Neighbours along the width, as a vector."""
        return tirx.BufferLoad(self._buffer, [ramp(k * self._pitch + at, lanes)])


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


class _Copy:
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
        # Float16 is rounded, element by element; the smallest tiles have no vector of a row.
        along = near.terms if operand.along_sum else near.width
        is_vector = near.dtype == "float32" and along % operand.lanes == 0
        self._lanes = operand.lanes if is_vector else 1
        self._size = near.terms * near.width // self._lanes
        # Along the width, all turns of an item have one place: where a window lies is found once.
        # Vectors are of no windows that a place has to be found in.
        row = 1 if operand.along_sum or self._lanes > 1 else near.width
        self._step = self._items // row * row or self._items
        self._turns = parts_of(self._size, self._step)
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
            value = neighbours(self._operand.read(n, at, term), self._lanes)
            value = rounded(value, self._near.dtype)
            if tests := [*is_there, *self._exists(turn)]:
                value = tirx.if_then_else(tirx.all(*tests), value, zero)
            T.buffer_store(self._held, value, [turn])

    def put(self) -> None:
        """Emits the writes of the fetched elements to shared memory."""
        with T.unroll(self._turns) as turn:

            def write(turn: ir.Expr = turn) -> None:
                (k, at), value = self._place(turn), self._held[turn]
                if self._lanes == 1 or not self._operand.along_sum:
                    self._near.write(k, at, value)
                    return
                for lane in range(self._lanes):
                    self._near.write(k + lane, at, tirx.Shuffle([value], [lane]))

            if tests := self._exists(turn):
                with T.If(tirx.all(*tests)), T.Then():
                    write()
            else:
                write()

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


def _emit_sums(
    extent: ProductExtent, parts: tirx.Buffer | None, results: Results, gpu: Gpu
) -> None:
    """Emits the kernel that adds up the parts of each sum, if there are any."""
    size = extent.batch * extent.rows * extent.columns
    with (
        T.thread_binding(parts_of(size, gpu.group), "blockIdx.x") as group,
        T.thread_binding(gpu.group, "threadIdx.x") as item,
        T.sblock("sum"),
    ):
        total = T.sblock_alloc_buffer((1,), "float32", scope="local")
        flat = group * gpu.group + item
        with T.If(flat < size), T.Then():
            T.buffer_store(total, tirx.const(0.0, "float32"), [0])
            row, p = flat // extent.columns, flat % extent.columns
            if parts is not None:
                _add_parts(total, int(parts.shape[0]), lambda part: parts[part, row, p])
            results.store(row // extent.rows, row % extent.rows, p, total[0])


def _add_parts(total: tirx.Buffer, count: int, read: Callable[[ir.Expr], ir.Expr]) -> None:
    """Emits the sum of parts in order: some are read before any of them is added."""
    most = min(count, _PARTS_AT_ONCE)
    held = T.sblock_alloc_buffer((most,), "float32", scope="local")

    def add(first: ir.Expr, these: int) -> None:
        with T.unroll(these) as part:
            T.buffer_store(held, read(first + part), [part])
        with T.unroll(these) as part:
            T.buffer_store(total, total[0] + held[part], [0])

    if count > most:
        with T.serial(count // most) as turn:
            add(turn * most, most)
    if rest := count % most or (most if count == most else 0):
        add(index(count - rest), rest)


def neighbours(element: ir.Expr, lanes: int) -> ir.Expr:
    """A plain read of a tensor as that of so many elements from there on."""
    if lanes == 1:
        return element
    assert isinstance(element, ir.TensorLoad), element
    *outer, last = element.indices
    return tirx.BufferLoad(element.source, [*outer, ramp(last, lanes)])


def _both(task: ir.Expr, splits: int) -> tuple[ir.Expr, ir.Expr]:
    return task // splits, task % splits
