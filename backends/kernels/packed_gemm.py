"""A packed, register-tiled matrix product: the kernel that convolutions are mapped to.

`C[n, m, p] = sum over k of a(m, k) * b(n, k, p)`, where `a` and `b` are any expressions, so that a
convolution needs no im2col buffer: `b` reads the image, and only one panel of `[K, columns]` is
packed at a time (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008).
Each tile of `rows x columns` results stays in vector registers while `k` runs.

The machine is described by the width and number of its vector registers, nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, s_tir, te, tirx

from odtc.core.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

Read = Callable[..., ir.Expr]


@dataclass(frozen=True)
class Machine:
    """What a kernel must know of a CPU.

    Attributes:
        lanes: float32 elements in a vector register.
        rows: rows of a register tile.
        vectors: vectors in a row of a register tile; `rows * vectors` accumulators must fit.
    """

    lanes: int
    rows: int
    vectors: int

    def tile_rows(self, total: int) -> int:
        """Rows of a tile: at most `rows`, and as even a cut of `total` as can be."""
        return -(-total // -(-total // self.rows))

    def tile_columns(self, total: int) -> int:
        """Columns of a tile: whole vectors, as few of them empty as can be, and wide."""
        widths = [count * self.lanes for count in range(1, self.vectors + 1)]
        return min(widths, key=lambda width: (-(-total // width) * width, -width))


# Bits of a vector register to the tile: 32 registers with AVX-512 and NEON, 16 with AVX2 and SSE.
_TILES = {512: (8, 3), 256: (6, 2), 128: (8, 2)}


def machine_of(vector_bits: int) -> Machine:
    """The description of a CPU by the width of its vector registers."""
    rows, vectors = _TILES[vector_bits]
    return Machine(vector_bits // 32, rows, vectors)


def product_kernel(
    inputs: Sequence[te.Tensor],
    shape: tuple[int | None, int, int, int],
    a: Read,
    b: Read,
    machine: Machine,
) -> tirx.PrimFunc:
    """A kernel for `C[n, m, p] = sum over k of a(m, k) * b(n, k, p)`.

    Args:
        inputs: placeholders that `a` and `b` read, the kernel's arguments.
        shape: sizes of n, m, k and p; without n the result is a matrix.
        a: element of the left matrix, which is packed whole.
        b: element of the right matrix; a panel of it is packed at a time.
        machine: the CPU.
    """
    batch, rows, depth, columns = shape
    mr, nr = machine.tile_rows(rows), machine.tile_columns(columns)
    tiles, panels = -(-rows // mr), -(-columns // nr)
    left = te.compute((tiles, depth, mr), lambda t, k, i: _padded(a, t * mr + i, rows, k), "left")
    count = 1 if batch is None else batch
    right = te.compute(
        (count, panels, depth, nr),
        lambda n, q, k, j: _padded(lambda p, d: b(n, d, p), q * nr + j, columns, k),
        "right",
    )
    k = te.reduce_axis((0, depth), "k")
    tile = te.compute(
        (count, panels, tiles, mr, nr),
        lambda n, q, t, i, j: te.sum(left[t, k, i] * right[n, q, k, j], axis=k),
        "tile",
    )

    def element(n: ir.Expr | int, m: ir.Expr, p: ir.Expr) -> ir.Expr:
        return tile[n, p // nr, m // mr, m % mr, p % nr]

    if batch is None:
        result = te.compute((rows, columns), lambda m, p: element(0, m, p), "result")
    else:
        result = te.compute((batch, rows, columns), element, "result")
    schedule = s_tir.Schedule(te.create_prim_func([*inputs, result]))
    block = schedule.get_sblock("tile")
    n, q, t, i, j, reduction = schedule.get_loops(block)
    panel = schedule.fuse(n, q)
    schedule.parallel(panel)
    _register_tile(schedule, block, (t, reduction, i, j), machine.lanes)
    schedule.compute_at(schedule.get_sblock("right"), panel)
    schedule.reverse_compute_at(schedule.get_sblock("result"), panel)
    schedule.parallel(schedule.get_loops(schedule.get_sblock("left"))[0])
    return _finished(schedule)


def gradient_kernel(
    inputs: Sequence[te.Tensor],
    shape: tuple[int, int, int, int],
    a: Read,
    b: Read,
    machine: Machine,
) -> tirx.PrimFunc:
    """A kernel for `C[m, k] = sum over n, p of a(n, m, p) * b(n, k, p)`.

    The long sum over n and p is cut into chunks whose panel stays in cache; a tile is loaded and
    stored once per chunk.

    Args:
        inputs: placeholders that `a` and `b` read, the kernel's arguments.
        shape: sizes of n, m, k and p.
        a: element of the left matrix, which is packed whole.
        b: element of the right matrix; a chunk of a panel is packed at a time.
        machine: the CPU.
    """
    batch, rows, columns, positions = shape
    chunk = min(CHUNK, positions)
    pieces = -(-positions // chunk)
    chunks = batch * pieces
    mr, nr = machine.tile_rows(rows), machine.tile_columns(columns)
    tiles, panels = -(-rows // mr), -(-columns // nr)

    def term(read: Read, c: ir.Expr, r: ir.Expr, index: ir.Expr, bound: int) -> ir.Expr:
        position = (c % pieces) * chunk + r
        return _padded(
            lambda p, x: _padded(lambda y, _: read(c // pieces, y, p), x, bound, x),
            position,
            positions,
            index,
        )

    left = te.compute(
        (chunks, tiles, chunk, mr), lambda c, t, r, i: term(a, c, r, t * mr + i, rows), "left"
    )
    right = te.compute(
        (panels, chunks, chunk, nr), lambda q, c, r, j: term(b, c, r, q * nr + j, columns), "right"
    )
    c, r = te.reduce_axis((0, chunks), "c"), te.reduce_axis((0, chunk), "r")
    tile = te.compute(
        (panels, tiles, mr, nr),
        lambda q, t, i, j: te.sum(left[c, t, r, i] * right[q, c, r, j], axis=[c, r]),
        "tile",
    )
    result = te.compute(
        (rows, columns), lambda m, x: tile[x // nr, m // mr, m % mr, x % nr], "result"
    )
    schedule = s_tir.Schedule(te.create_prim_func([*inputs, result]))
    block = schedule.get_sblock("tile")
    q, t, i, j, outer, inner = schedule.get_loops(block)
    schedule.reorder(q, outer, t, inner, i, j)
    schedule.parallel(q)
    vectors = schedule.split(j, [None, machine.lanes])
    schedule.unroll(i)
    schedule.unroll(vectors[0])
    schedule.vectorize(vectors[1])
    initial = schedule.decompose_reduction(block, outer)
    _vectorise_last(schedule, initial, machine.lanes)
    schedule.compute_at(schedule.get_sblock("right"), outer)
    schedule.reverse_compute_at(schedule.get_sblock("result"), q)
    left_loops = schedule.get_loops(schedule.get_sblock("left"))
    schedule.parallel(schedule.fuse(*left_loops[:2]))
    return _finished(schedule)


# Positions of the long sum whose panel is packed at once: 256 x 48 floats are 48 KiB.
CHUNK = 256


def _padded(read: Read, index: ir.Expr, bound: int, *rest: ir.Expr) -> ir.Expr:
    """`read(index, *rest)`, and zero where the index is past its bound."""
    inside = read(tirx.min(index, bound - 1), *rest)
    return tirx.if_then_else(index < bound, inside, tirx.const(0, "float32"))


def _register_tile(
    schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV, loops: tuple, lanes: int
) -> None:
    """Keeps a tile in registers over the whole reduction."""
    tile, reduction, i, j = loops
    count, lane = schedule.split(j, [None, lanes])
    schedule.reorder(tile, reduction, i, count, lane)
    store = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(store, tile)
    schedule.vectorize(lane)
    schedule.unroll(i)
    schedule.unroll(count)
    _vectorise_last(schedule, schedule.decompose_reduction(block, reduction), lanes)
    _vectorise_last(schedule, store, lanes)


def _vectorise_last(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV, lanes: int) -> None:
    """Vectors along the last loop of a block, the two loops outside of them unrolled."""
    last = schedule.get_loops(block)[-1]
    if int(schedule.get(last).extent) > lanes:
        outer, last = schedule.split(last, [None, lanes])
        schedule.unroll(outer)
    schedule.vectorize(last)


def _finished(schedule: s_tir.Schedule) -> tirx.PrimFunc:
    function = schedule.mod["main"].without_attr("global_symbol")
    return function.with_attr({PATTERN: OPAQUE, IS_SCHEDULED: True})
