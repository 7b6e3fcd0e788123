"""The inner loops of every product on a GPU: a tile of results for each work-group.

A group copies a slice of both operands into the memory that it shares, and each of its items
multiplies some rows by some columns of these, in registers (Volkov and Demmel, "Benchmarking GPUs
to tune dense linear algebra", 2008). Where there are too few tiles to keep the GPU busy, the sum is
cut into parts that other groups take, and that a second kernel adds up in a fixed order.

Where the GPU multiplies float16, what the group shares is rounded to it (`multiply.py`).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.matrix.tile import SubgroupTile
from odtc.backends.gpu.multiply import ACROSS, AT_ONCE, Accumulators
from odtc.backends.gpu.product_results import Results, Stores, within
from odtc.backends.gpu.product_slices import Copy, ProductOperand, Shared, Slices
from odtc.backends.gpu.tiling import ProductExtent, Tiling, parts_of, tiling_of
from odtc.backends.kernels.common.places import index

# Parts of a sum that are on their way at once.
_PARTS_AT_ONCE = 16
# Terms of a product that takes as long to store as to multiply, at most: the tails of such products
# are what they wait for.
_FEW_TERMS = 160
# Tiles of a row of a product, for one that goes over its edge: so many that most don't.
_TILES_FOR_ONE = 4


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
    terms = tiling.arithmetic.terms
    slices = Slices(extent.depth, terms)
    share = parts_of(parts_of(extent.depth, tiling.splits), terms)
    items = tiling.down * ACROSS
    subgroup = tiling.arithmetic.subgroup or items
    with (
        T.thread_binding(across, "blockIdx.x") as column_tile,
        T.thread_binding(down, "blockIdx.y") as row_tile,
        T.thread_binding(extent.batch * tiling.splits, "blockIdx.z") as task,
        _items(items // subgroup) as number,
        T.thread_binding(subgroup, "threadIdx.x") as lane,
        T.sblock("tile"),
    ):
        item = number * subgroup + lane
        n, part = (task, index(0)) if tiling.splits == 1 else _both(task, tiling.splits)
        near_left = Shared(tiling.arithmetic, height, left.along_sum)
        near_right = Shared(tiling.arithmetic, width, right.along_sum)
        to = results(part)
        tile = (
            SubgroupTile(tiling, (number, lane))
            if tiling.grid
            else _ItemsTile(tiling, item, _side_by_side(extent, to))
        )
        m0, p0 = row_tile * height, column_tile * width
        begin = part * share
        end = tirx.min(begin + share, index(slices.count))
        # The last parts may have fewer slices, or none.
        steps = share if tiling.splits == 1 else tirx.max(end - begin, 0)
        copies = [
            Copy(near_left, left, slices, (n, m0, extent.rows), (item, items)),
            Copy(near_right, right, slices, (n, p0, extent.columns), (item, items)),
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
            tile.add(near_left, near_right)
        tile.store(extent, to, (n, m0, p0))


def _items(subgroups: int) -> Any:
    """The block of a group's subgroups, which gives the number of each; of one that is nothing."""
    if subgroups == 1:
        return nullcontext(0)
    return T.thread_binding(subgroups, "threadIdx.y")


def _side_by_side(extent: ProductExtent, results: Results) -> int:
    """Columns of an item that may lie side by side.

    In vectors, shared memory is read fastest. But results that are stored one at a time then lie
    apart in each store of a group: of few terms it is better that items have neighbours.
    """
    return AT_ONCE if extent.depth > _FEW_TERMS else results.lanes(AT_ONCE)


class _ItemsTile:
    """The sums of a group's tile, some rows by some columns of each of its items.

    Args:
        tiling: of the product.
        item: its number.
        most: columns of an item that may lie side by side.
    """

    def __init__(self, tiling: Tiling, item: ir.Expr, most: int) -> None:
        self._tiling, self._x = tiling, item % ACROSS
        self._row = item // ACROSS * tiling.rows
        self._sums = Accumulators(tiling.rows, tiling.columns, tiling.arithmetic, most)

    def add(self, left: Shared, right: Shared) -> None:
        """Emits what a slice of both operands adds."""
        self._sums.add(left.read, right.read, self._row, self._x)

    def store(
        self, extent: ProductExtent, results: Results, first: tuple[ir.Expr, ir.Expr, ir.Expr]
    ) -> None:
        """Emits the stores of an item's results; `first` is the place of the tile's first one.

        Where results are stored one at a time, a tile that does not go over the edge of the columns
        does so without a branch for each.
        """
        size = self._tiling.height, self._tiling.width
        lanes = results.lanes(self._sums.wide)
        stores = Stores(results, lanes, self._tiling.columns // lanes)
        inner = replace(extent, columns=extent.columns // size[1] * size[1])
        if lanes > 1 or extent == inner or extent.columns < _TILES_FOR_ONE * size[1]:
            self._store(extent, stores, lanes, first)
            return
        with T.If(first[2] < inner.columns):
            with T.Then():
                self._store(inner, stores, lanes, first)
            with T.Else():
                self._store(extent, stores, lanes, first)

    def _store(
        self,
        extent: ProductExtent,
        stores: Stores,
        lanes: int,
        first: tuple[ir.Expr, ir.Expr, ir.Expr],
    ) -> None:
        """Emits the stores of vectors of so many, of those that are inside of an extent."""
        n, m0, p0 = first
        size, vectors = (self._tiling.height, self._tiling.width), self._tiling.columns // lanes

        def place(i: ir.Expr, j: ir.Expr) -> tuple[ir.Expr, ir.Expr, ir.Expr]:
            return n, m0 + self._row + i, p0 + self._sums.column(j * lanes, self._x)

        with T.unroll(self._tiling.rows) as i:
            if stores.reads:
                with T.unroll(vectors) as j:
                    stores.read(j, within(extent, size, place(i, j), lanes)[0])
            with T.unroll(vectors) as j:
                values = [
                    tirx.BufferLoad(self._sums.results, [i, j * lanes + lane])
                    for lane in range(lanes)
                ]
                at = place(i, j)
                inside, tests = within(extent, size, at, lanes)
                stores.write(j, at, inside, values, tests)


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


def _both(task: ir.Expr, splits: int) -> tuple[ir.Expr, ir.Expr]:
    return task // splits, task % splits
