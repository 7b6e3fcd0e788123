"""Tilings of a product on a GPU: sizes, the fastest by a model, and other candidates."""

from dataclasses import dataclass, replace

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.multiply import ACROSS, HALF, SINGLE, Arithmetic

# Terms of a slice that are worth a trial.
_SLICES = (16, 32, 8, 4)
# Terms of a part of a sum, at least.
_LEAST_TERMS = 64
# Banks of the memory that a group shares, and numbers that an item reads of it at once, at most.
_BANKS, _AT_ONCE = 32, 4
# A product of fewer terms, rows or columns stays in float32: it would gain nothing.
_LEAST_OF_HALF = 16
# Rows and columns of results of an item, and how fast it is with these: a larger tile reads the
# memory that its group shares less often for each product.
_SHARES = {(8, 8): 1.0, (4, 8): 0.85, (4, 4): 0.7, (2, 4): 0.5, (1, 2): 0.25}
# The same of groups of half as many items: a slice is read for fewer products.
_OF_HALF_A_GROUP = 0.95
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
    def local_bytes(self) -> int:
        """Most bytes of a slice of both operands in shared memory."""
        terms = self.arithmetic.terms
        return terms * (self.height + self.width + 2 * apart(terms)) * self.arithmetic.term_bytes

    def tiles(self, extent: ProductExtent) -> int:
        """Number of tiles of a product."""
        return (
            extent.batch * parts_of(extent.rows, self.height) * parts_of(extent.columns, self.width)
        )

    def use(self, extent: ProductExtent) -> float:
        """The share of its results that are wanted."""
        wanted = extent.batch * extent.rows * extent.columns
        return wanted / (self.tiles(extent) * self.height * self.width)


def tiling_of(extent: ProductExtent, gpu: Gpu) -> Tiling:
    """The fastest tiles, and sums in as many parts as it takes to keep the GPU busy."""
    chosen = _tile(extent, gpu)
    most = max(extent.depth // chosen.arithmetic.terms, 1)
    size = extent.batch * extent.rows * extent.columns * 4
    room = max(gpu.split_bytes // size, 1)
    splits = min(
        max(round(gpu.groups / chosen.tiles(extent)), 1),
        max(extent.depth // _LEAST_TERMS, 1),
        room,
    )
    others = {int(splits * times) for times in _MORE_SPLITS}
    possible = [(other,) for other in sorted(others, key=lambda n: abs(n - splits))]
    (splits,) = gpu.decide(
        "splits", [n for n in possible if 1 <= n[0] <= min(most, room)], (splits,)
    )
    return replace(chosen, splits=splits)


def _tile(extent: ProductExtent, gpu: Gpu) -> Tiling:
    """The tile that is the fastest by its speed and by the share of it that is wanted."""
    down, arithmetic = gpu.group // ACROSS, _arithmetic(extent, gpu)
    tilings = {
        Tiling(*share, each, 1, arithmetic): speed * times
        for share, speed in _SHARES.items()
        for each, times in ((down, 1.0), (down // 2, _OF_HALF_A_GROUP))
    }
    speeds = {each: speed for each, speed in tilings.items() if _fits(each, gpu)}
    chosen = max(speeds, key=lambda each: speeds[each] * each.use(extent))
    others = [
        Tiling(*share, each, 1, arithmetic)
        for each in (down, down // 2, down * 2, down // 4)
        for share in (*_SHARES, *_MORE_SHARES)
        if 1 <= each <= gpu.most_items // ACROSS
    ]
    likely = sorted((each for each in others if _fits(each, gpu)), key=lambda t: -t.use(extent))
    shapes = [(each.rows, each.columns, each.down) for each in likely]
    usual = (chosen.rows, chosen.columns, chosen.down)
    rows, columns, down = gpu.decide("tile", shapes, usual)
    return _sliced(Tiling(rows, columns, down, 1, arithmetic), gpu)


def _sliced(tile: Tiling, gpu: Gpu) -> Tiling:
    """A tile with the terms of its slices: of float16, at most those that are added up in it."""
    arithmetic = tile.arithmetic
    tiles = {n: replace(tile, arithmetic=replace(arithmetic, terms=n)) for n in _SLICES}
    slices = [
        (n,)
        for n, each in tiles.items()
        if _fits(each, gpu) and (arithmetic.dtype == SINGLE.dtype or n <= HALF.terms)
    ]
    (terms,) = gpu.decide("slice", slices, (arithmetic.terms,))
    return tiles[terms]


def _arithmetic(extent: ProductExtent, gpu: Gpu) -> Arithmetic:
    least = min(extent.rows, extent.depth, extent.columns)
    return HALF if gpu.multiplies_half and least >= _LEAST_OF_HALF else SINGLE


def _fits(tiling: Tiling, gpu: Gpu) -> bool:
    is_whole = tiling.columns % tiling.arithmetic.lanes == 0
    is_small = tiling.rows * tiling.columns <= gpu.accumulators
    return tiling.local_bytes <= gpu.local_bytes and is_small and is_whole


def apart(terms: int) -> int:
    """Numbers between the rows of a slice, if items side by side write to rows side by side.

    So each writes to another bank; rows begin where whole vectors do.
    """
    return max(_BANKS // terms, _AT_ONCE)


def parts_of(size: int, part: int) -> int:
    """Parts of a size, the last of which may be smaller."""
    return -(-size // part)
