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

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.multiply import ACROSS, Sums
from odtc.backends.gpu.tiling import Extent, Tiling, parts_of, tiling_of
from odtc.backends.kernels.places import index, rounded

Read = Callable[..., ir.Expr]


@dataclass(frozen=True)
class Operand:
    """One side of a product.

    Attributes:
        read: `(n, at, k)` to an element: of matrix `n`, row or column `at`, term `k`.
        along_sum: whether neighbours in `k` lie side by side; those in `at` do, otherwise.
    """

    read: Read
    along_sum: bool


def emit_product(
    extent: Extent, left: Operand, right: Operand, store: Callable[..., None], gpu: Gpu
) -> None:
    """Emits a product into the open block of an IR builder.

    Args:
        extent: its sizes.
        left: the operand of the rows.
        right: that of the columns.
        store: `(n, m, p, value)`, takes each result.
        gpu: the machine.
    """
    tiling = tiling_of(extent, gpu)
    if tiling.splits == 1:
        _emit_tiles(extent, tiling, left, right, lambda _, *at: store(*at))
        return
    size = extent.batch * extent.rows * extent.columns
    parts = T.sblock_alloc_buffer((tiling.splits, size), "float32")

    def flat(n: ir.Expr, m: ir.Expr, p: ir.Expr) -> ir.Expr:
        return (n * extent.rows + m) * extent.columns + p

    def keep(part: ir.Expr, n: ir.Expr, m: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        T.buffer_store(parts, value, [part, flat(n, m, p)])

    _emit_tiles(extent, tiling, left, right, keep)
    _emit_sums(extent, tiling.splits, parts, store, gpu)


def _emit_tiles(
    extent: Extent, tiling: Tiling, left: Operand, right: Operand, store: Callable[..., None]
) -> None:
    """Emits the kernel of the tiles; `store(part, n, m, p, value)` takes results."""
    height, width = tiling.height, tiling.width
    down, across = parts_of(extent.rows, height), parts_of(extent.columns, width)
    terms, dtype = tiling.arithmetic.terms, tiling.arithmetic.dtype
    share = parts_of(parts_of(extent.depth, tiling.splits), terms) * terms
    items = tiling.down * ACROSS
    with (
        T.thread_binding(across, "blockIdx.x") as column_tile,
        T.thread_binding(down, "blockIdx.y") as row_tile,
        T.thread_binding(extent.batch * tiling.splits, "blockIdx.z") as task,
        T.thread_binding(items, "threadIdx.x") as item,
        T.sblock("tile"),
    ):
        n, part = (task, index(0)) if tiling.splits == 1 else _both(task, tiling.splits)
        near_left = T.sblock_alloc_buffer((terms, height), dtype, scope="shared")
        near_right = T.sblock_alloc_buffer((terms, width), dtype, scope="shared")
        sums = Sums(tiling.rows, tiling.columns, tiling.arithmetic)
        m0, p0 = row_tile * height, column_tile * width
        y, x = item // ACROSS, item % ACROSS
        end = tirx.min((part + 1) * share, index(extent.depth))
        copies = [
            _Copy(near_left, left, (n, m0), extent.rows, (item, items)),
            _Copy(near_right, right, (n, p0), extent.columns, (item, items)),
        ]
        for copy in copies:
            copy.fetch(part * share, end)
        with T.serial(share // terms) as step:
            for copy in copies:
                copy.put()
            # While this slice is multiplied, the next one is on its way.
            for copy in copies:
                copy.fetch(part * share + (step + 1) * terms, end)
            sums.add(near_left, near_right, y * tiling.rows, x)
        with T.unroll(tiling.rows) as i, T.unroll(tiling.columns) as j:
            m, p = m0 + y * tiling.rows + i, p0 + sums.column(j, x)
            with T.If(tirx.all(m < extent.rows, p < extent.columns)), T.Then():
                store(part, n, m, p, tirx.BufferLoad(sums.results, [i, j]))


class _Copy:
    """The copy of slices `[k, at]` of an operand, with zeros outside of it.

    Args:
        near: where to.
        operand: what of.
        start: the matrix, and the first row or column.
        length: rows or columns of the operand.
        item: number of the work-item, and how many there are.
    """

    def __init__(
        self,
        near: tirx.Buffer,
        operand: Operand,
        start: tuple[ir.Expr, ir.Expr],
        length: int,
        item: tuple[ir.Expr, int],
    ) -> None:
        self._near, self._operand, self._start, self._length = near, operand, start, length
        self._number, self._items = item
        self._terms, self._dtype = int(near.shape[0]), str(near.dtype)
        self._size = self._terms * int(near.shape[1])
        self._turns = parts_of(self._size, self._items)
        self._held = T.sblock_alloc_buffer((self._turns,), self._dtype, scope="local")

    def fetch(self, k0: ir.Expr, end: ir.Expr) -> None:
        """Emits the reads of the elements of a slice, into registers."""
        n, first = self._start
        zero = tirx.const(0.0, self._dtype)
        with T.unroll(self._turns) as turn:
            k, at = self._place(turn)
            inside = tirx.all(first + at < self._length, k0 + k < end)
            value = self._operand.read(
                n, tirx.min(first + at, index(self._length - 1)), tirx.min(k0 + k, end - 1)
            )
            value = rounded(value, self._dtype)
            T.buffer_store(self._held, tirx.if_then_else(inside, value, zero), [turn])

    def put(self) -> None:
        """Emits the writes of what was fetched to the shared memory."""
        with T.unroll(self._turns) as turn:

            def write(turn: ir.Expr = turn) -> None:
                T.buffer_store(self._near, self._held[turn], list(self._place(turn)))

            if self._turns * self._items == self._size:
                write()
            else:
                with T.If(turn * self._items + self._number < self._size), T.Then():
                    write()

    def _place(self, turn: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Which element an item copies in a turn: neighbours in memory, one after the other."""
        flat, width = turn * self._items + self._number, int(self._near.shape[1])
        if self._operand.along_sum:
            return flat % self._terms, flat // self._terms
        return flat // width, flat % width


def _emit_sums(
    extent: Extent, splits: int, parts: tirx.Buffer, store: Callable[..., None], gpu: Gpu
) -> None:
    """Emits the kernel that adds up the parts of each sum."""
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
            with T.serial(splits) as part:
                T.buffer_store(total, total[0] + tirx.BufferLoad(parts, [part, flat]), [0])
            plane = extent.rows * extent.columns
            n, inside = flat // plane, flat % plane
            store(n, inside // extent.columns, inside % extent.columns, total[0])


def _both(task: ir.Expr, splits: int) -> tuple[ir.Expr, ir.Expr]:
    return task // splits, task % splits
