"""Tilings of a product on a GPU: sizes, the fastest by a model, and other candidates."""

from dataclasses import dataclass, replace

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.matrix.grid import Grid, grid_of, slice_elements
from odtc.backends.gpu.multiply import ACROSS, HALF, SINGLE, Arithmetic
from odtc.backends.gpu.tile_speeds import TileSpeed
from odtc.core.ir.matrix_calls import SIZE

# Terms of a slice that are worth a trial.
_SLICES = (16, 32, 8, 4)
# Terms of a part of a sum, at least.
_LEAST_TERMS = 64
# Banks of the memory that a group shares, and numbers that an item reads of it at once, at most.
_BANKS, _AT_ONCE = 32, 4
# Work-items that keep a GPU busy, and multiply-adds that take as long as a part of a result, which
# is written to memory and read again; matrices do three times as many meanwhile.
_BUSY, _PART, _PART_OF_MATRICES = 1 << 15, 64, 192
# Registers of a unit, and of an item by its results, as NVIDIA's driver tells: 80 to 168.
_REGISTERS, _BASE, _FOR_EACH = 1 << 16, 40, 2
_SUM_BYTES = 4
# A product of fewer terms, rows or columns stays in float32: it would gain nothing.
_LEAST_OF_HALF = 16
# Others that are worth a trial.
_MORE_SHARES = ((8, 4), (16, 4), (4, 16), (8, 2), (2, 8), (4, 2), (2, 2), (16, 8), (8, 16))
# Splits beside those that keep a GPU busy: times these.
_MORE_SPLITS = (0.5, 2, 0.25, 4, 0.125, 8)


@dataclass(frozen=True)
class ProductExtent:
    """Sizes of a product: so many matrices of `rows` by `columns`, each a sum of `depth` terms."""

    batch: int
    rows: int
    depth: int
    columns: int

    @property
    def results(self) -> int:
        """Number of results."""
        return self.batch * self.rows * self.columns


@dataclass(frozen=True)
class Tiling:
    """The tiling of a product.

    Attributes:
        rows: results of an item along the rows; the group has as many times its items along them.
        columns: along the columns.
        down: items of a group along the rows.
        splits: parts of the sum.
        arithmetic: of the multiplication.
    """

    rows: int
    columns: int
    down: int
    splits: int
    arithmetic: Arithmetic = SINGLE

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return self.rows * self.down

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.columns * ACROSS

    @property
    def grid(self) -> Grid | None:
        """Of its subgroups, where these multiply matrices; None where items multiply."""
        subgroup = self.arithmetic.subgroup
        if not subgroup or self.down * ACROSS % subgroup or self.arithmetic.terms % SIZE:
            return None
        return grid_of(self.height, self.width, self.down * ACROSS // subgroup)

    @property
    def local_bytes(self) -> int:
        """Most bytes of a slice of both operands in shared memory, and of results on their way."""
        terms = self.arithmetic.terms
        if self.grid:
            elements = slice_elements(terms, self.height) + slice_elements(terms, self.width)
            return elements * self.arithmetic.term_bytes + self.grid.handed * _SUM_BYTES
        return terms * (self.height + self.width + 2 * apart(terms)) * self.arithmetic.term_bytes

    def tiles(self, extent: ProductExtent) -> int:
        """Number of tiles of a product."""
        return (
            extent.batch * parts_of(extent.rows, self.height) * parts_of(extent.columns, self.width)
        )

    def use(self, extent: ProductExtent) -> float:
        """The share of its results that are wanted."""
        return extent.results / (self.tiles(extent) * self.height * self.width)


def tiling_of(extent: ProductExtent, gpu: Gpu) -> Tiling:
    """The fastest tiles, and sums in as many parts as keep the GPU busy, by a model."""
    arithmetic = _arithmetic(extent, gpu)
    tiles = gpu.matrix_tiles if arithmetic.subgroup else gpu.tiles
    speeds = {
        tile: each.speed for each in tiles if _fits(tile := _tile(each, arithmetic, gpu), gpu)
    }
    usual = min(speeds, key=lambda tile: _fastest(tile, extent, gpu, speeds[tile])[0])
    tile = _decided(usual, extent, gpu)
    _, splits = _fastest(tile, extent, gpu, speeds.get(tile, 1.0))
    most = min(max(extent.depth // tile.arithmetic.terms, 1), _room(extent, gpu))
    others = {int(splits * times) for times in _MORE_SPLITS}
    possible = [(other,) for other in sorted(others, key=lambda n: abs(n - splits))]
    (splits,) = gpu.decide("splits", [n for n in possible if 1 <= n[0] <= most], (splits,))
    return replace(tile, splits=splits)


def _tile(each: TileSpeed, arithmetic: Arithmetic, gpu: Gpu) -> Tiling:
    if arithmetic == SINGLE or arithmetic.subgroup:
        arithmetic = replace(arithmetic, terms=each.terms)
    return Tiling(each.rows, each.columns, gpu.group // each.share // ACROSS, 1, arithmetic)


def _fastest(tile: Tiling, extent: ProductExtent, gpu: Gpu, speed: float) -> tuple[float, int]:
    """The least time of a tile over all numbers of parts, and that number."""
    most = min(max(extent.depth // _LEAST_TERMS, 1), _room(extent, gpu), gpu.groups)
    return min((time_of(tile, extent, gpu, speed, splits), splits) for splits in range(1, most + 1))


def time_of(tile: Tiling, extent: ProductExtent, gpu: Gpu, speed: float, splits: int) -> float:
    """Multiply-adds of a GPU without idle units that take as long as the product.

    Its units take groups in turns. In the last one, some have none.
    """
    groups, items = tile.tiles(extent) * splits, tile.down * ACROSS
    turns = turns_of(parts_of(groups, gpu.units), items, tile.rows * tile.columns, gpu)
    items_in_turn = max(turns * gpu.units * items, _BUSY)
    terms = parts_of(parts_of(extent.depth, splits), tile.arithmetic.terms) * tile.arithmetic.terms
    part = _PART_OF_MATRICES if tile.arithmetic.subgroup else _PART
    sums = part * splits * extent.results if splits > 1 else 0
    return items_in_turn * tile.rows * tile.columns * terms / speed + sums


def turns_of(groups: int, items: int, sums: int, gpu: Gpu) -> float:
    """How many times as long as one of many a unit takes for its groups.

    It has as many at a time as there are registers for. The last of them may be alone, and wait.

    Args:
        groups: of the unit.
        items: of a group.
        sums: that an item holds in registers.
        gpu: whose unit it is.
    """
    if gpu.units == 1:
        return groups
    registers = _BASE + _FOR_EACH * sums
    at_once = max(_REGISTERS // (registers * items), 1)
    whole, rest = divmod(groups, at_once)
    alone = rest * _hidden(at_once * items) / _hidden(rest * items) if rest else 0.0
    return whole * at_once + alone


def _hidden(items: int) -> float:
    """The share of its speed that a unit reaches with so many items: few wait for each other.

    With 256 of them on each unit of an H100 products reached 0.6 to 0.75 of what they did with 512
    and more, with 384 nine tenths.
    """
    return min(0.1 + items / 448, 1.0)


def _room(extent: ProductExtent, gpu: Gpu) -> int:
    """Parts of a sum for which there is memory."""
    return max(gpu.split_bytes // (extent.results * 4), 1)


def _decided(usual: Tiling, extent: ProductExtent, gpu: Gpu) -> Tiling:
    """The usual tile, or another one that a record has."""
    others = [
        replace(usual, rows=rows, columns=columns, down=down)
        for down in dict.fromkeys(gpu.group * n // 4 // ACROSS for n in (4, 2, 8, 1))
        for rows, columns in dict.fromkeys(
            (*((each.rows, each.columns) for each in gpu.tiles), *_MORE_SHARES)
        )
        if 1 <= down <= gpu.most_items // ACROSS
    ]
    likely = sorted((each for each in others if _fits(each, gpu)), key=lambda t: -t.use(extent))
    shapes = [(each.rows, each.columns, each.down) for each in likely]
    rows, columns, down = gpu.decide("tile", shapes, (usual.rows, usual.columns, usual.down))
    return _sliced(replace(usual, rows=rows, columns=columns, down=down), gpu)


def _sliced(tile: Tiling, gpu: Gpu) -> Tiling:
    """A tile with the terms of its slices."""
    arithmetic = tile.arithmetic
    tiles = {n: replace(tile, arithmetic=replace(arithmetic, terms=n)) for n in _SLICES}
    slices = [(n,) for n, each in tiles.items() if _fits(each, gpu)]
    (terms,) = gpu.decide("slice", slices, (arithmetic.terms,))
    return tiles[terms]


def _arithmetic(extent: ProductExtent, gpu: Gpu) -> Arithmetic:
    least = min(extent.rows, extent.depth, extent.columns)
    if not gpu.multiplies_half or least < _LEAST_OF_HALF:
        return SINGLE
    return replace(HALF, subgroup=gpu.subgroup)


def _fits(tiling: Tiling, gpu: Gpu) -> bool:
    if tiling.arithmetic.subgroup:
        is_right = tiling.grid is not None
    else:
        is_right = tiling.rows * tiling.columns <= gpu.accumulators
    return tiling.local_bytes <= gpu.local_bytes and is_right


def apart(terms: int) -> int:
    """Numbers between the rows of a slice, if items side by side write to rows side by side.

    So each writes to another bank; rows begin where whole vectors do.
    """
    return max(_BANKS // terms, _AT_ONCE)


def parts_of(size: int, part: int) -> int:
    """Parts of a size, the last of which may be smaller."""
    return -(-size // part)
