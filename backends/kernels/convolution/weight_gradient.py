"""The gradient of a convolution's weights as a matrix product over the positions of the output.

`dw[m, c, tap] = sum over n and o of dy[n, m, o] * x[n, c, o shifted by the tap]`: the tile's rows
are channels of the staged image, read one element after the other; its columns are channels of
`dy`, of which a panel is transposed. The long sum is cut into blocks that fit near a core; sums
between blocks stay in memory of the panel's size, so that long sums are also more exact. Where
results are too few for tasks of all cores, tasks share the blocks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.counted_tiles import NOT_COUNTED
from odtc.backends.kernels.common.places import divisors, index, pieces, size_of, unflatten
from odtc.backends.kernels.common.transpose import copy_transposed
from odtc.backends.kernels.common.vectors import further
from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.convolution.staging import (
    StagedBlock,
    phase_at,
    phases_of,
    reach_of,
    shift_of,
    stage_block,
    strides_of,
)
from odtc.backends.kernels.product.half_runs import add_into
from odtc.backends.kernels.product.panel import split_rows
from odtc.backends.kernels.product.panels import Read
from odtc.backends.kernels.product.shares import results_of, shares_of
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator

# Terms of the sum for each copied element of `dy` that make the copy cheap.
WORTH_A_COPY = 128
# Parts of the channels that are worth a trial.
_MOST_PARTS = 32
# Blocks that are worth a trial.
_BLOCKS = 8


def weight_gradient(
    shape: Shape,
    walk: Sequence[Walk],
    image: Read,
    dy: Read,
    dw: tirx.Buffer,
    machine: Machine,
    *,
    offset: ir.Expr | int = 0,
    is_swapped: bool = False,
) -> None:
    """Emits the product.

    Args:
        shape: sizes; its rows are the channels of `dy`.
        walk: how the convolution walks over the image, by axis.
        image: `(n, channel, *at)` to an element.
        dy: `(n, m, position)` to an element, or a vector of neighbours.
        dw: the result, float32[m, c, *taps].
        machine: the CPU.
        offset: row of `dw` for the first channel of `dy`.
        is_swapped: whether what is called the image is `dy`, so that `dw` is [c, m, *taps].
    """
    axes = [each.staged for each in walk]
    phases = [phases_of(each.phases) for each in walk]
    taps, planes = math.prod(each.taps for each in walk), math.prod(map(len, phases))
    dtype = machine.dtype(shape.batch * math.prod(each.out for each in walk))
    cut = _cut(shape, taps, machine, dtype)
    tile, channels = cut.tile, shape.channels // cut.parts
    live = min(shape.rows, tile.columns)
    sums_bytes = 4 * cut.panels * channels * taps * tile.columns
    near = max(machine.near - sums_bytes, machine.near // 4)
    block = _block(shape.batch, channels * planes, walk, tile, near, machine)
    dense = block.rows * math.prod(each.out for each in walk[1:])
    blocks = (shape.batch // block.images, walk[0].out // block.rows)
    sizes = (shape.rows, shape.channels * taps)
    shares = shares_of(math.prod(blocks), cut.parts * cut.groups, math.prod(sizes), machine)
    each, between = math.prod(blocks) // shares, [index(0) for _ in dw.shape[2:]]
    results = results_of(
        shares, sizes[::-1] if is_swapped else sizes, dw, lambda i, j: [offset + i, *between, j]
    )
    # The sum runs over results only, so no vector reaches past them.
    staged_rows = -(-(block.positions + reach_of(walk, strides_of(axes))) // block.inner)
    with T.parallel(shares * cut.parts * cut.groups) as task:
        share, part, group = unflatten(task, (shares, cut.parts, cut.groups))
        sums = T.sblock_alloc_buffer((cut.panels, channels * taps, tile.columns), "float32")
        right = T.sblock_alloc_buffer((block.images * dense, tile.columns), dtype)
        stage = T.sblock_alloc_buffer(
            (*map(len, phases), channels, staged_rows * block.inner), dtype
        )
        for buffer in (sums, right) if live < tile.columns else (sums,):
            _clear(buffer)

        def first_row(panel: ir.Expr) -> ir.Expr:
            """The last panel reaches back over results that are there already."""
            last = index(max(shape.rows - tile.columns, 0))
            return T.Bind(tirx.min((group * cut.panels + panel) * tile.columns, last))

        def part_of_image(n: ir.Expr, c: ir.Expr, *at: ir.Expr) -> ir.Expr:
            return image(n, part * channels + c, *at)

        with T.serial(each) as step:
            images, band = unflatten(share * each + step, blocks)
            n = images * block.images
            start = (n, band * block.rows)
            stage_block(stage, part_of_image, axes, phases, start, block)
            with T.serial(cut.panels) as panel:
                m = first_row(panel)
                with T.serial(block.images) as of:
                    copy_transposed(
                        (live, dense),
                        lambda j, p: dy(n + of, m + j, band * dense + p),
                        right,
                        lambda p, j: [of * dense + p, j],
                        tile.lanes,
                    )
                for begin, count, rows in pieces(channels, tile.rows):
                    piece = tile.of_rows(rows)
                    with T.grid(count, *(each.taps for each in walk)) as (t, *tap):
                        c = begin + t * rows
                        _add((stage, right, sums), piece, (panel, c), tap, walk, block, phases)
        with T.serial(cut.panels) as panel:
            m, first = first_row(panel), part * channels * taps
            if is_swapped:
                with T.grid(channels, live) as (k, j):
                    value = tirx.BufferLoad(sums, [panel, k, j])
                    T.buffer_store(results.target, value, results.at(share, first + k, m + j))
            else:
                copy_transposed(
                    (channels * taps, live),
                    lambda k, j: tirx.BufferLoad(sums, [panel, k, j]),
                    results.target,
                    lambda j, k: results.at(share, m + j, further(k, first)),
                    machine.lanes,
                )
    results.join(machine.lanes)


def _add(
    buffers: tuple[tirx.Buffer, tirx.Buffer, tirx.Buffer],
    tile: Tile,
    place: tuple[ir.Expr, ir.Expr],
    tap: Sequence[ir.Expr],
    walk: Sequence[Walk],
    block: StagedBlock,
    phases: Sequence[Sequence[int]],
) -> None:
    """Emits what a block adds to a tile of the sums: some channels of a panel, under one tap."""
    (stage, right, sums), (panel, c) = buffers, place
    strides = strides_of([each.staged for each in walk])
    outs = [each.out for each in walk[1:]]
    shift = shift_of(walk, strides, tap)
    flat, taps = index(0), math.prod(each.taps for each in walk)
    for each, position in zip(walk, tap, strict=True):
        flat = flat * each.taps + position

    def of_sums(row: int, v: int) -> list[ir.Expr]:
        return [panel, (c + row) * taps + flat, tile.span(v)]

    def left(row: int, of: ir.Expr, r: ir.Expr, *o: ir.Expr) -> ir.Expr:
        at = (of * block.staged_rows + r) * block.inner + shift
        at = at + sum((x * s for x, s in zip(o, strides[1:], strict=True)), index(0))
        return tirx.BufferLoad(stage, [*phase_at(walk, phases, tap), c + row, at])

    def vector(v: int, of: ir.Expr, r: ir.Expr, *o: ir.Expr) -> ir.Expr:
        at = of * block.rows + r
        for size, x in zip(outs, o, strict=True):
            at = at * size + x
        return tirx.BufferLoad(right, [at, tile.span(v)])

    extents = [block.images, block.rows, *outs]
    add_into(sums, accumulator(tile), tile, of_sums, extents, left, vector)


def _clear(buffer: tirx.Buffer) -> None:
    with T.grid(*(int(size) for size in buffer.shape)) as at:
        T.buffer_store(buffer, tirx.const(0.0, str(buffer.dtype)), list(at))


@dataclass(frozen=True)
class _Cut:
    """Tasks of a product: parts of the image's channels times groups of panels."""

    tile: Tile
    parts: int
    groups: int
    panels: int


def _cut(shape: Shape, taps: int, machine: Machine, dtype: str) -> _Cut:
    """Tasks enough for all cores, where each part is worth its copy of `dy`."""
    possible = divisors(shape.channels)
    worthy = [p for p in possible if shape.channels // p * taps >= WORTH_A_COPY] or [1]
    usual = next((p for p in worthy if p >= machine.tasks), worthy[-1])
    (parts,) = machine.decide("parts", [(p,) for p in possible if p <= _MOST_PARTS], (usual,))
    # Of one tap, neighbours in a row are terms: LLVM reads four at once, and of high tiles, which
    # are for cores whose loads are narrow, it then spills the sums. Counts are of other terms.
    model = machine if taps > 1 else replace(machine, blocked=0, counted=NOT_COUNTED)
    tile = model.tile_of_sums(shape.channels // parts, shape.rows, dtype)
    panels, groups = split_rows(shape.rows, tile.columns, parts, machine.tasks)
    return _Cut(tile, parts, groups, panels)


def _block(
    batch: int, planes: int, walk: Sequence[Walk], tile: Tile, near: int, machine: Machine
) -> StagedBlock:
    """Whole images, or bands of rows that divide one."""
    inner = math.prod(each.staged.span for each in walk[1:])
    line_bytes = size_of(tile.dtype) * inner
    room = near / (line_bytes * (planes + tile.columns))
    if machine.first_bytes:
        # Each tile of the sums reads a panel and its own channels of a block again.
        room = min(room, machine.first_bytes / (line_bytes * (tile.rows + tile.columns)))
    out, usual = walk[0].out, _usual_rows(batch, walk[0], room)
    cuts = [(1, r) for r in divisors(out)[:-1]] + [(n, out) for n in divisors(batch)]
    cuts.sort(key=lambda cut: abs(math.log(math.prod(cut) / math.prod(usual))))
    images, rows = machine.decide("block", cuts[:_BLOCKS], usual)
    # A band ends among other rows, not at an edge whose zeros it could share.
    is_whole = rows == out and 2 * walk[0].staged.span <= room
    staged = walk[0].staged.span if images > 1 or is_whole else rows + walk[0].reach
    return StagedBlock(images, rows, staged, inner)


def _usual_rows(batch: int, walk: Walk, room: float) -> tuple[int, int]:
    """Images and rows of each, of about so many."""
    if walk.staged.span * 2 <= room:
        return max(n for n in divisors(batch) if n == 1 or n * walk.out <= room), walk.out
    return 1, min(divisors(walk.out), key=lambda r: abs(math.log(r / max(0.7 * room, 0.5))))
