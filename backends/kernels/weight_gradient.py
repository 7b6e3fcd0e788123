"""The gradient of a convolution's weights as a matrix product over the positions of the output.

`dw[m, c, tap] = sum over n and o of dy[n, m, o] * x[n, c, o shifted by the tap]`: the tile's rows
are channels of the staged image, read one element after the other; its columns are channels of
`dy`, of which a panel is transposed. The long sum is cut into blocks that fit near a core; sums
between blocks stay in memory of the panel's size, so that long sums are also more exact.
"""

import math
from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.grid import Walk
from odtc.backends.kernels.panel_product import TASKS, Read, unravel
from odtc.backends.kernels.shifted_product import (
    Block,
    Shape,
    phase_at,
    phases_of,
    reach_of,
    shift_of,
    stage_block,
    strides_of,
)
from odtc.backends.kernels.tile import Machine, Tile, accumulate, accumulator, index
from odtc.backends.kernels.transpose import copy_transposed

# Terms of the sum for each copied element of `dy` that make the copy cheap.
WORTH_A_COPY = 128


def weight_gradient(
    shape: Shape, walk: Sequence[Walk], image: Read, dy: Read, store: Read, machine: Machine
) -> None:
    """Emits the product.

    Args:
        shape: sizes; its rows are the channels of `dy`.
        walk: how the convolution walks over the image, by axis.
        image: `(n, channel, *at)` to an element.
        dy: `(n, m, position)` to an element, or a vector of neighbours.
        store: `(m, c, taps, value)`, takes an element; `taps` is flat.
        machine: the CPU.
    """
    axes = [each.staged for each in walk]
    phases = [phases_of(each.phases) for each in walk]
    strides = strides_of(axes)
    taps = math.prod(each.taps for each in walk)
    outs = [each.out for each in walk]
    parts = _parts(shape, taps, machine)
    channels = shape.channels // parts
    tile = machine.tile(channels, shape.rows)
    panels = -(-shape.rows // tile.columns)
    live = min(shape.rows, tile.columns)
    block = _block(shape.batch, channels * math.prod(map(len, phases)), walk, tile, machine)
    dense = math.prod(outs[1:])
    # The sum runs over results only, so no vector reaches behind them.
    staged_rows = -(-(block.positions + reach_of(walk, strides)) // block.inner)
    bands = outs[0] // block.rows
    with T.parallel(panels * parts) as task:
        panel, part = unravel(task, (panels, parts))
        # The last panel reaches back over results that are there already.
        m = T.Bind(tirx.min(panel * tile.columns, index(max(shape.rows - tile.columns, 0))))
        sums = T.sblock_alloc_buffer((channels, taps, tile.columns), "float32")
        right = T.sblock_alloc_buffer((block.images * block.rows * dense, tile.columns), "float32")
        stage = T.sblock_alloc_buffer(
            (*map(len, phases), channels, staged_rows * block.inner), "float32"
        )
        for buffer in (sums, right) if live < tile.columns else (sums,):
            _clear(buffer)
        with T.grid(shape.batch // block.images, bands) as (group, band):
            n, first = group * block.images, band * block.rows
            stage_block(
                stage,
                lambda n, c, *at: image(n, part * channels + c, *at),
                axes,
                phases,
                (n, first),
                block,
            )
            with T.serial(block.images) as of:
                copy_transposed(
                    (live, block.rows * dense),
                    lambda j, p: dy(n + of, m + j, first * dense + p),
                    right,
                    lambda p, j: [of * block.rows * dense + p, j],
                    tile.lanes,
                )
            for start, count, piece in _pieces(channels, tile):
                with T.grid(count, *(each.taps for each in walk)) as (t, *tap):
                    _add(
                        (stage, right, sums),
                        piece,
                        start + t * piece.rows,
                        tap,
                        walk,
                        block,
                        phases,
                    )
        _write(sums, live, lambda c, tap, j, value: store(m + j, part * channels + c, tap, value))


def _add(
    buffers: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
    tile: Tile,
    c: ir.Expr,
    tap: Sequence[ir.Expr],
    walk: Sequence[Walk],
    block: Block,
    phases: Sequence[Sequence[int]],
) -> None:
    """Emits what a block adds to a tile of the sums: some channels under one tap."""
    stage, right, sums = buffers
    strides = strides_of([each.staged for each in walk])
    outs = [each.out for each in walk[1:]]
    shift = shift_of(walk, strides, tap)
    flat = index(0)
    for each, position in zip(walk, tap, strict=True):
        flat = flat * each.taps + position
    results = accumulator(tile)
    places = [
        ([c + row, flat, tile.span(v)], [index(row), tile.span(v)])
        for row in range(tile.rows)
        for v in range(tile.vectors)
    ]
    for outside, inside in places:
        T.buffer_store(results, tirx.BufferLoad(sums, outside), inside)

    def left(row: int, of: ir.Expr, r: ir.Expr, *o: ir.Expr) -> ir.Expr:
        at = (of * block.staged_rows + r) * block.inner + shift
        at = at + sum((x * s for x, s in zip(o, strides[1:], strict=True)), index(0))
        return tirx.BufferLoad(stage, [*phase_at(walk, phases, tap), c + row, at])

    def vector(v: int, of: ir.Expr, r: ir.Expr, *o: ir.Expr) -> ir.Expr:
        at = of * block.rows + r
        for size, x in zip(outs, o, strict=True):
            at = at * size + x
        return tirx.BufferLoad(right, [at, tile.span(v)])

    accumulate(results, tile, [block.images, block.rows, *outs], left, vector)
    for outside, inside in places:
        T.buffer_store(sums, tirx.BufferLoad(results, inside), outside)


def _clear(buffer: tirx.Buffer) -> None:
    with T.grid(*(int(size) for size in buffer.shape)) as at:
        T.buffer_store(buffer, tirx.const(0.0, "float32"), list(at))


def _pieces(channels: int, tile: Tile) -> list[tuple[int, int, Tile]]:
    """First channel, number and shape of the tiles that cover the channels, each once."""
    whole, rest = divmod(channels, tile.rows)
    pieces = [(0, whole, tile)] if whole else []
    return [*pieces, (whole * tile.rows, 1, tile.of_rows(rest))] if rest else pieces


def _write(sums: tirx.Buffer, live: int, store: Read) -> None:
    """Emits the transposed copy of the sums to the result."""
    channels, taps, _ = (int(size) for size in sums.shape)
    with T.grid(live, channels, taps) as (j, c, tap):
        store(c, tap, j, tirx.BufferLoad(sums, [c, tap, j]))


def _parts(shape: Shape, taps: int, machine: Machine) -> int:
    """Parts of the channels: enough for all cores, where each is worth its copy of `dy`."""
    panels = -(-shape.rows // machine.tile(shape.channels, shape.rows).columns)
    divisors = [p for p in range(1, shape.channels + 1) if shape.channels % p == 0]
    worthy = [p for p in divisors if shape.channels // p * taps >= WORTH_A_COPY] or [1]
    enough = [p for p in worthy if p * panels >= TASKS]
    return enough[0] if enough else worthy[-1]


def _block(batch: int, planes: int, walk: Sequence[Walk], tile: Tile, machine: Machine) -> Block:
    """Whole images, or bands of rows that divide one, near what a core has room for."""
    inner = math.prod(each.staged.span for each in walk[1:])
    between = walk[0].staged.span - walk[0].out
    room = machine.cache_bytes / (4 * inner * (planes + tile.columns))
    rows = walk[0].out
    if walk[0].staged.span * 2 <= room:
        images = max(n for n in range(1, batch + 1) if batch % n == 0 and n * rows <= room)
        return Block(images, rows, rows + between, inner)
    divisors = [r for r in range(1, rows + 1) if rows % r == 0]
    band = min(divisors, key=lambda r: abs(math.log(r / max(room, 0.5))))
    return Block(1, band, band + between, inner)
