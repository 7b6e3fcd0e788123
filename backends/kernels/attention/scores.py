"""The products of attention, between a block of queries and a block of keys, and its mask.

All of this is emitted into the open block of an IR builder.
"""

from collections.abc import Callable

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.attention.blocks import AttentionBlocks, KeyRange, QuerySpan
from odtc.backends.kernels.attention.layout import Heads, shifted
from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import splat
from odtc.backends.kernels.product.panels import Read
from odtc.backends.kernels.product.tile import Machine, Tile, accumulate, accumulator, clear

# From a key of a block and a vector of queries, counted from the block's first ones.
Bias = Callable[[ir.Expr, ir.Expr], ir.Expr]


def bias_of(
    heads: Heads,
    mask: tirx.Buffer | None,
    place: tuple[ir.Expr, ir.Expr],
    span: QuerySpan,
    first_key: ir.Expr,
    lanes: int,
) -> Bias | None:
    """The mask of a block, if there is one; emits its transposed copy where queries differ.

    Args:
        heads: the attention.
        mask: the argument.
        place: sample and head.
        span: the queries.
        first_key: of the block.
        lanes: elements of a vector.
    """
    if mask is None:
        return None
    b, h = (at if size > 1 else index(0) for at, size in zip(place, heads.mask[:2], strict=True))
    if heads.mask[2] == 1:
        return lambda n, _: splat(mask[b, h, 0, first_key + n], lanes)
    copy = T.sblock_alloc_buffer((span.blocks.block, span.blocks.most), "float32")

    def read(i: ir.Expr, j: ir.Expr) -> ir.Expr:
        return mask[b, h, span.start + i, shifted(j, first_key)]

    span.transposed(span.blocks.block, read, copy, lanes)
    return lambda n, at: tirx.BufferLoad(copy, [n, at])


def masked(heads: Heads, score: ir.Expr, bias: ir.Expr | None) -> ir.Expr:
    """A score with its mask."""
    if bias is None:
        return score
    return tirx.Select(bias == _zeros(bias), score, bias) if heads.replaces else score + bias


def unmasked(heads: Heads, adjoint: ir.Expr, bias: ir.Expr | None) -> ir.Expr:
    """The adjoint of a score from that of its result in `masked`."""
    if bias is None or not heads.replaces:
        return adjoint
    return tirx.Select(bias == _zeros(bias), adjoint, _zeros(bias))


def _zeros(like: ir.Expr) -> ir.Expr:
    lanes = str(like.ty).split("x")[1:]
    return splat(tirx.const(0.0, "float32"), int(lanes[0]) if lanes else 1)


def scores(
    blocks: AttentionBlocks,
    at: ir.Expr,
    width: int,
    keys: Read,
    right: tirx.Buffer,
    result: tirx.Buffer,
    among: KeyRange,
) -> None:
    """Emits `result[n, at + m] = sum over d of keys(n, d) * right[d, at + m]` for a panel.

    Args:
        blocks: how queries and keys are cut.
        at: first query of the panel.
        width: number of `d`.
        keys: `(n, d)` to an element.
        right: the transposed operand.
        result: a block of scores.
        among: the keys `n`; some that are no part of it may be computed, too.
    """
    tile = blocks.tile
    with T.serial((among.count + (tile.rows - 1)) // tile.rows) as t:
        # The last tile reaches back over results that are there already.
        n = T.Bind(tirx.min(among.first + t * tile.rows, index(blocks.block - tile.rows)))
        results = accumulator(tile)
        clear(results, tile)
        accumulate(
            results,
            tile,
            [width],
            lambda row, d: keys(n + row, d),
            lambda v, d: tirx.BufferLoad(right, [d, tile.span(v, at)]),
        )
        for row in range(tile.rows):
            for v in range(tile.vectors):
                value = tirx.BufferLoad(results, [index(row), tile.span(v)])
                T.buffer_store(result, value, [n + row, tile.span(v, at)])


# Takes a row, columns and the vector of a product there.
Store = Callable[[ir.Expr, ir.Expr, ir.Expr], None]


def tile_within(machine: Machine, rows: int, width: int, multiple: int | None = None) -> Tile:
    """The tile of a product whose sums go on: no part of it may be computed twice.

    Args:
        machine: the CPU.
        rows: of the product.
        width: its columns; vectors cover them, and the tile's divide these.
        multiple: what the tile's rows must divide; nothing, where rows that are left get a tile of
            their own.
    """
    vectors = -(-width // machine.lanes)
    tiles = [
        machine.tile_of(_rows(rows, machine.accumulators // v, multiple), v)
        for v in range(1, 5)
        if vectors % v == 0
    ]
    return min(tiles, key=lambda tile: tile.cost(rows, vectors * machine.lanes))


def _rows(rows: int, most: int, multiple: int | None) -> int:
    if multiple is None:
        return min(rows, most)
    return max(size for size in range(1, most + 1) if multiple % size == 0)


def add_product(
    tile: Tile,
    width: int,
    rows: ir.Expr | int,
    depth: ir.Expr | int,
    left: Read,
    right: Read,
    store: Store,
    *,
    among: KeyRange | None = None,
) -> None:
    """Emits `store(row, at, sum over k of left(row, k) * right(k, at))` for all vectors.

    Args:
        tile: of `tile_within`.
        width: columns; vectors cover them.
        rows: number of rows; where it is an expression, the tile's rows divide it.
        depth: terms of the sum.
        left: `(row, k)` to an element.
        right: `(k, at)` to a vector; `at` are its columns.
        store: takes a row, columns and a vector.
        among: rows, where others are zeros, whose products may be left out.
    """
    panels = -(-width // tile.columns)

    def some(tile: Tile, first: ir.Expr) -> None:
        with T.serial(panels) as panel:
            at = T.Bind(panel * tile.columns)
            results = accumulator(tile)
            clear(results, tile)
            accumulate(
                results,
                tile,
                [depth],
                lambda row, k: left(first + row, k),
                lambda v, k: right(k, tile.span(v, at)),
            )
            for row in range(tile.rows):
                for v in range(tile.vectors):
                    value = tirx.BufferLoad(results, [index(row), tile.span(v)])
                    store(first + row, tile.span(v, at), value)

    rest = rows % tile.rows if isinstance(rows, int) else 0
    whole = rows // tile.rows
    if among is None or among.is_whole:
        with T.serial(whole) as t:
            some(tile, t * tile.rows)
        if rest:
            some(tile.of_rows(rest), index(whole * tile.rows))
        return
    begin = T.Bind(among.first // tile.rows)
    end = T.Bind(tirx.min((among.end + (tile.rows - 1)) // tile.rows, index(whole)))
    with T.serial(end - begin) as t:
        some(tile, T.Bind((begin + t) * tile.rows))
    if rest:
        with T.If(among.end > whole * tile.rows), T.Then():
            some(tile.of_rows(rest), index(whole * tile.rows))
