"""The inner loop of every matrix product: a tile of results that stays in vector registers.

`acc[i, j] += left(i, k) * right(k, j)`, where an element of `left` is read once for all lanes and
`right` in whole vectors (Goto and van de Geijn, "Anatomy of high-performance matrix
multiplication", 2008). The machine is described by the width and number of its vector registers,
and by what it multiplies. Loads are expressions: what a product packs, and whether it packs at all,
is its own affair. Tiles of float16 are added up in short runs; see
`backends/kernels/product/half_runs.py`.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.caches import Caches
from odtc.backends.counted_tiles import (
    NOT_COUNTED,
    OF_SMALL_CORES,
    CountedTiles,
)
from odtc.backends.decisions import MachineModel
from odtc.backends.kernels.common.places import index, size_of
from odtc.backends.kernels.common.vectors import ramp, splat

# Fused multiply-adds in flight that keep two units of a latency of four busy.
IN_FLIGHT = 8
# Rows of the left operand whose addresses are kept in registers, of 31 for integers.
_ADDRESSED = 12
# How much longer a step takes whose sums are in memory.
_SPILLED = 3


@dataclass(frozen=True)
class Machine(MachineModel):
    """A CPU as kernels see it: its registers and caches.

    Attributes:
        lanes: float32 elements in a vector register.
        accumulators: registers that may hold results, the others hold operands.
        cache_bytes: what a core has near it: of its second-level cache, about a half.
        widths: vectors that a tile may have side by side.
        has_half: whether products are to multiply float16, where that pays.
        first_bytes: what blocks that are read again and again may have in the first-level cache,
            about a half; 0 where they are only fitted to the second one.
        blocked: cycles in which it begins no multiply-add for a load of a vector, where its loads
            are narrower than its vectors; 0 where they go beside multiply-adds.
        counted: what steps of tiles of float32 take by counts, as far as there are some.
    """

    lanes: int
    accumulators: int
    cache_bytes: int
    widths: tuple[int, ...] = (1, 2, 3, 4)
    has_half: bool = False
    first_bytes: int = 0
    blocked: int = 0
    counted: CountedTiles = field(default=NOT_COUNTED, repr=False)

    @property
    def multiplies(self) -> str:
        """The narrowest type that its products may multiply."""
        return "float16" if self.has_half else "float32"

    def dtype(self, depth: int, *reuse: int) -> str:
        """Returns the dtype to multiply in: float16 where the CPU has it and the product gains.

        Args:
            depth: terms of each sum.
            reuse: for each operand that is copied for its rounding alone, how often each of its
                elements is multiplied.
        """
        pays = depth >= _LEAST_DEPTH and min(reuse, default=_LEAST_REUSE) >= _LEAST_REUSE
        return "float16" if self.has_half and pays else "float32"

    def lanes_of(self, dtype: str) -> int:
        """Elements of a type in a vector register."""
        return self.lanes * 4 // size_of(dtype)

    def registers(self) -> Iterator[tuple[int, int]]:
        """Vectors of a tile, and its rows at most, with some registers more than are counted on."""
        limit = self.accumulators * 7 // 6
        return ((vectors, limit // vectors) for vectors in self.widths)

    def tile(self, rows: int, columns: int, dtype: str = "float32") -> "Tile":
        """The tile that takes the fewest cycles for a product of `rows` by `columns`.

        A step multiplies and adds `rows * vectors` vectors, two at a time, and loads each operand
        once. A core may load two vectors in a cycle, but not for long: many lie across two lines,
        or farther away than the first cache; one is what is counted on. The last tile may overlap
        the one before it.
        """
        shapes = [
            self.tile_of(_even(rows, self.accumulators // vectors), vectors, dtype)
            for vectors in self.widths
        ]
        best = min(shapes, key=lambda tile: tile.cost(rows, columns))
        others = (
            replace(best, rows=height, vectors=vectors)
            for vectors, most in self.registers()
            for height in {_even(rows, limit) for limit in range(1, most + 1)}
        )
        return self._decided(best, others, lambda tile: tile.cost(rows, columns))

    def tile_of_sums(self, rows: int, columns: int, dtype: str = "float32") -> "Tile":
        """The tile that takes the fewest cycles where tiles add to sums, so that none may overlap.

        Of the loop for the rows that tiles leave over LLVM keeps the sums in memory, so that a
        divisor of the rows is better than a fuller tile.
        """
        shapes = [
            self.tile_of(height, vectors, dtype)
            for vectors in self.widths
            for height in range(1, min(rows, self.accumulators // vectors) + 1)
        ]
        best = min(shapes, key=lambda tile: tile.cost_of_sums(rows, columns))
        others = (
            replace(best, rows=height, vectors=vectors)
            for vectors, most in self.registers()
            for height in range(1, min(rows, most) + 1)
        )
        return self._decided(best, others, lambda tile: tile.cost_of_sums(rows, columns))

    def tile_of(self, rows: int, vectors: int, dtype: str = "float32") -> "Tile":
        """A tile of a given shape on this machine."""
        return Tile(rows, vectors, self.lanes_of(dtype), dtype, self.blocked, self.counted)

    def _decided(
        self, best: "Tile", others: Iterable["Tile"], cost: Callable[["Tile"], tuple]
    ) -> "Tile":
        likely = sorted(others, key=cost)[:_TILES]
        shape = (best.rows, best.vectors)
        rows, vectors = self.decide("tile", [(t.rows, t.vectors) for t in likely], shape)
        return replace(best, rows=rows, vectors=vectors)

    @property
    def tasks(self) -> int:
        """Tasks that a product is cut into where it has them, so that all cores have some."""
        (tasks,) = self.decide("tasks", _around(TASKS), (TASKS,))
        return tasks

    @property
    def near(self) -> int:
        """Bytes of what a product has near a core."""
        (near,) = self.decide("near", _around(self.cache_bytes), (self.cache_bytes,))
        return near


# Tasks of a product: all cores of a phone have some.
TASKS = 8
# Tiles that are worth a trial, of those that a model of the machine has in order.
_TILES = 24


def _around(number: int) -> list[tuple[int]]:
    """A power of two and others, the nearest ones first."""
    return [(number * up // down,) for up, down in ((1, 2), (2, 1), (1, 4), (4, 1), (1, 8))]


# A run of fewer terms is hardly longer than adding its sum up; an element that is rounded for fewer
# products costs more than these gain.
_LEAST_DEPTH, _LEAST_REUSE = 16, 32


@dataclass(frozen=True)
class Tile:
    """Results that are computed at once.

    Attributes:
        rows: elements of the left operand in a step.
        vectors: vectors of the right operand in a step.
        lanes: elements of a vector.
        dtype: of the operands, and of the sums in registers.
        blocked: as of its machine.
        counted: as of its machine.
    """

    rows: int
    vectors: int
    lanes: int
    dtype: str = "float32"
    blocked: int = 0
    counted: CountedTiles = field(default=NOT_COUNTED, repr=False)

    @property
    def columns(self) -> int:
        """Elements of the right operand in a step."""
        return self.vectors * self.lanes

    def of_rows(self, rows: int) -> "Tile":
        """The same tile with so many rows."""
        return replace(self, rows=rows)

    def cost(self, rows: int, columns: int) -> tuple[float, int, int]:
        """Returns the key that ranks tiles: time, columns left empty, height."""
        empty = max(self.columns - columns, 0)
        return self.cycles(rows, columns), empty, self.rows

    def cost_of_sums(self, rows: int, columns: int) -> tuple[float, int, float]:
        """Returns the key that ranks tiles where none may overlap.

        It is their time, columns left empty, and loads for each product.
        """
        whole, rest = divmod(rows, self.rows)
        steps = whole * self.step + (_SPILLED * self.of_rows(rest).step if rest else 0)
        loads = (self.rows + self.vectors) / (self.rows * self.vectors)
        return steps * -(-columns // self.columns), max(self.columns - columns, 0), loads

    def cycles(self, rows: int, columns: int) -> float:
        """Cycles for each step of the sum, by the model above, over the whole product."""
        return self.step * -(-rows // self.rows) * -(-columns // self.columns)

    @property
    def step(self) -> float:
        """Twice the cycles of a step of the sum; of a core with one unit for them, the cycles."""
        known = self.counted.cycles.get((self.rows, self.vectors))
        if known and self.dtype == "float32":
            return known if self.blocked else 2 * known
        products = self.rows * self.vectors
        if self.blocked:
            # Rows are read beside products, as far as there are registers for their addresses.
            rows = self.rows / 8 + max(self.rows - _ADDRESSED, 0)
            return max(products + self.blocked * self.vectors + rows, IN_FLIGHT / 2)
        return max(products, 2 * (self.rows + self.vectors), IN_FLIGHT)

    def span(self, vector: int, base: ir.Expr | int = 0) -> ir.Expr:
        """Indices of one of the tile's vectors, counted from `base`."""
        return ramp(base + vector * self.lanes, self.lanes)


def _even(total: int, most: int) -> int:
    """Rows of a tile: at most `most`, and as even a cut of `total` as can be."""
    return -(-total // -(-total // most))


# Bits of a vector register to registers for results, of 32 with AVX-512 and NEON and of 16 with
# AVX2, and to half of the second-level cache of a usual core.
_MACHINES = {512: (24, 1 << 19), 256: (12, 1 << 18), 128: (24, 1 << 18)}


def machine_of(
    vector_bits: int, *, has_half: bool = False, caches: Caches | None = None
) -> Machine:
    """The description of a CPU.

    Args:
        vector_bits: of its vector registers.
        has_half: whether products are to multiply float16, where that pays.
        caches: of a core; None is what a usual one with such registers has.
    """
    accumulators, near = _MACHINES[vector_bits]
    machine = Machine(vector_bits // 32, accumulators, near, has_half=has_half)
    if not caches:
        return machine
    loads = vector_bits // 8 // caches.loaded
    return replace(
        machine,
        cache_bytes=caches.second // 2,
        first_bytes=caches.first // 2,
        blocked=loads if loads > 1 else 0,
        counted=OF_SMALL_CORES if loads > 1 else NOT_COUNTED,
    )


def accumulator(tile: Tile) -> tirx.Buffer:
    """The registers of a tile's results."""
    return T.sblock_alloc_buffer((tile.rows, tile.columns), tile.dtype, scope="local")


# From a row of the tile and the indices of the sum to an element, or to a vector of one for each
# lane; from one of the tile's vectors to that.
Left = Callable[..., ir.Expr]
Right = Callable[..., ir.Expr]
Extent = ir.Expr | int


def multiply(
    results: tirx.Buffer, tile: Tile, extents: Sequence[int], left: Left, right: Right
) -> None:
    """Emits `results = sum over k of left(i, *k) * right(v, *k)`.

    Args:
        results: of `accumulator`.
        tile: its shape.
        extents: sizes of the loops of the sum, outermost first.
        left: element of a row.
        right: one of the tile's vectors.
    """
    clear(results, tile)
    accumulate(results, tile, extents, left, right)


def clear(results: tirx.Buffer, tile: Tile) -> None:
    """Emits `results = 0`."""
    for at in _places(tile):
        T.buffer_store(results, splat(tirx.const(0.0, tile.dtype), tile.lanes), at)


def accumulate(
    results: tirx.Buffer, tile: Tile, extents: Sequence[Extent], left: Left, right: Right
) -> None:
    """Emits `results += sum over k of left(i, *k) * right(v, *k)`; see `multiply`."""

    def loops(rest: Sequence[Extent], k: list[ir.Expr]) -> None:
        if rest:
            with T.serial(rest[0]) as step:
                loops(rest[1:], [*k, step])
            return
        for row in range(tile.rows):
            element = splat(left(row, *k), tile.lanes)
            for vector in range(tile.vectors):
                at = [index(row), tile.span(vector)]
                term = element * right(vector, *k)
                T.buffer_store(results, tirx.BufferLoad(results, at) + term, at)

    loops(extents, [])


def keep(
    results: tirx.Buffer,
    scratch: tirx.Buffer,
    tile: Tile,
    column: ir.Expr | int,
    outer: Sequence[ir.Expr] = (),
) -> None:
    """Emits the copy of a tile's registers to memory float32[*outer, rows, columns].

    Args:
        results: of `accumulator`.
        scratch: the memory.
        tile: its shape.
        column: of the memory, for the tile's first one.
        outer: indices in front of the row.
    """
    for row, vector in itertools.product(range(tile.rows), range(tile.vectors)):
        value = tirx.BufferLoad(results, [index(row), tile.span(vector)])
        T.buffer_store(scratch, value, [*outer, index(row), tile.span(vector, column)])


def _places(tile: Tile) -> list[list[ir.Expr]]:
    return [
        [index(row), tile.span(vector)]
        for row in range(tile.rows)
        for vector in range(tile.vectors)
    ]
