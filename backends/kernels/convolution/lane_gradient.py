"""The gradient of the weights of one tap, where each element serves few products.

`dw[m, c] = sum over n and p of dy[n, m, p] * x[n, c, p]`, where both operands lie side by side in
`p`: a result is a whole vector, to which each step adds the product of a vector of either operand,
and whose lanes are added up once in the end. So neither operand is transposed. The columns, of
which there are fewer, are copied near a core, and rows are read where they lie. A vector that would
reach past its image reaches back instead; what it has twice is zero in the copy. Between blocks
of positions the vectors stay in memory: lanes times as much as in the other form.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, pieces
from odtc.backends.kernels.common.vectors import lane_total, ramp, splat
from odtc.backends.kernels.convolution.lane_blocks import PART, VectorRun, block_of
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.product.panels import Read
from odtc.backends.kernels.product.shares import results_of, shares_of
from odtc.backends.kernels.product.tile import (
    IN_FLIGHT,
    TASKS,
    Machine,
    Tile,
    accumulate,
    accumulator,
)

# Vectors of a block for each product of an element, from which on lanes share sums.
_LEAST = 1.3
# Tiles that are worth a trial.
_TILES = 12


def is_worth_lanes(shape: Shape, positions: int, machine: Machine) -> bool:
    """Whether lanes share the sums of a product of one tap, by a model.

    For each block, vectors of all results are read and written, in place of transposed copies of
    what few products are of. Either takes about as long beside what it computes: one over the
    vectors of a block, the other over the products of an element.
    """
    columns = min(shape.rows, shape.channels)
    reuse = shape.rows * shape.channels / (shape.rows + shape.channels)
    room = machine.cache_bytes // PART // (4 * machine.lanes * columns)
    vectors = min(room, positions // machine.lanes * shape.batch // TASKS)
    return vectors >= _LEAST * reuse


def lane_gradient(
    shape: Shape,
    positions: int,
    image: Read,
    dy: Read,
    dw: tirx.Buffer,
    machine: Machine,
    *,
    is_direct: bool,
) -> None:
    """Emits the product.

    Args:
        shape: sizes; its rows are the channels of `dy`.
        positions: of an image, at least as many as a vector has lanes.
        image: `(n, channel, p)` to a vector of neighbours, as float32.
        dy: the same.
        dw: the result, float32[m, c, 1...].
        machine: the CPU.
        is_direct: whether operands are stored as float32, so that rows may be read where they lie.
    """
    is_few = int(shape.rows < shape.channels)
    (swapped,) = machine.decide("swapped", [(0,), (1,)], (is_few,))
    rows, columns, left, right = shape.rows, shape.channels, dy, image
    if swapped:
        rows, columns, left, right = columns, rows, image, dy
    tile = _tile(rows, columns, machine)
    block = block_of(shape.batch, positions, columns, machine)
    blocks = block.groups * block.bands
    shares = shares_of(blocks, 1, rows * columns, machine)
    between = [index(0) for _ in dw.shape[2:]]
    target = (shape.rows, shape.channels)
    results = results_of(shares, target, dw, lambda m, c: [m, *between, c])
    with T.parallel(index(shares)) as share:
        sums = T.sblock_alloc_buffer((rows, columns, tile.lanes), "float32")
        with T.grid(rows, columns) as (i, j):
            zero = splat(tirx.const(0.0, "float32"), tile.lanes)
            T.buffer_store(sums, zero, [i, j, ramp(0, tile.lanes)])
        near = T.sblock_alloc_buffer((columns, block.length), "float32")
        copy = None if is_direct else T.sblock_alloc_buffer((tile.rows, block.length), "float32")
        with T.serial(blocks // shares) as step:
            runs = block.part(share * (blocks // shares) + step).runs()
            for run in runs:
                _copy(run, columns, right, near)
            for first, count, height in pieces(rows, tile.rows):
                with T.serial(count) as t:
                    i = first + t * height
                    read = _rows(runs, left, i, height, copy)
                    for begin, times, width in pieces(columns, tile.vectors):
                        with T.serial(times) as u:
                            place = (i, begin + u * width)
                            _add(sums, Tile(height, width, tile.lanes), place, runs, read, near)
        with T.grid(rows, columns) as (i, j):
            value = lane_total(tirx.BufferLoad(sums, [i, j, ramp(0, tile.lanes)]), tile.lanes)
            m, c = (j, i) if swapped else (i, j)
            T.buffer_store(results.target, value, results.at(share, m, c))
    results.join(machine.lanes)


def _copy(run: VectorRun, rows: int, read: Read, near: tirx.Buffer) -> None:
    """Emits the copy of some rows of either operand; what others have, too, is zero."""
    with T.grid(rows, *run.extents) as (j, *k):
        n, at = run.place(*k)
        value = read(n, j, at)
        if run.known:
            zeros = splat(tirx.const(0.0, "float32"), at.lanes)
            is_new = ramp(index(0), at.lanes) >= splat(index(run.known), at.lanes)
            value = tirx.Select(is_new, value, zeros)
        T.buffer_store(near, value, [j, run.near(*k)])


def _rows(
    runs: Sequence[VectorRun], read: Read, first: ir.Expr, rows: int, copy: tirx.Buffer | None
) -> Callable[..., ir.Expr]:
    """Returns a load of vectors by run, row and place; emits the copy of rows if one is given."""
    if copy is None:

        def where_it_lies(run: VectorRun, row: int, *k: ir.Expr) -> ir.Expr:
            n, at = run.place(*k)
            return read(n, first + row, at)

        return where_it_lies
    for run in runs:
        _copy(run, rows, lambda n, row, at: read(n, first + row, at), copy)
    return lambda run, row, *k: tirx.BufferLoad(copy, [index(row), run.near(*k)])


def _add(
    sums: tirx.Buffer,
    tile: Tile,
    start: tuple[ir.Expr, ir.Expr],
    runs: Sequence[VectorRun],
    read: Callable[..., ir.Expr],
    near: tirx.Buffer,
) -> None:
    """Emits what a block adds to a tile of the sums."""
    (i, j), registers = start, accumulator(tile)
    places = [
        ([i + row, j + v, ramp(0, tile.lanes)], [index(row), tile.span(v)])
        for row in range(tile.rows)
        for v in range(tile.vectors)
    ]
    for outside, inside in places:
        T.buffer_store(registers, tirx.BufferLoad(sums, outside), inside)
    for run in runs:
        accumulate(
            registers,
            tile,
            run.extents,
            lambda row, *k, run=run: read(run, row, *k),
            lambda v, *k, run=run: tirx.BufferLoad(near, [j + v, run.near(*k)]),
        )
    for outside, inside in places:
        T.buffer_store(sums, tirx.BufferLoad(registers, inside), outside)


def _tile(rows: int, columns: int, machine: Machine) -> Tile:
    """The tile that takes the fewest cycles.

    Of the registers some hold operands: vectors of all its columns, and of one row.
    """
    registers, most = machine.accumulators * 4 // 3, machine.accumulators
    shapes = [
        (height, width)
        for height in range(1, min(rows, most) + 1)
        for width in range(1, min(columns, most) + 1)
        if height * width + width < registers
    ]
    shapes.sort(key=lambda shape: _cost(rows, columns, *shape))
    height, width = machine.decide("tile", shapes[:_TILES], shapes[0])
    return Tile(height, width, machine.lanes)


def _cost(rows: int, columns: int, height: int, width: int) -> tuple[int, int]:
    """Returns the key that ranks tiles: twice the cycles over all vectors, then loads."""
    tiles = [
        (times * count, h, w)
        for _, times, h in pieces(rows, height)
        for _, count, w in pieces(columns, width)
    ]
    steps = sum(count * max(h * w, 2 * (h + w), IN_FLIGHT) for count, h, w in tiles)
    return steps, sum(count * (h + w) for count, h, w in tiles)
