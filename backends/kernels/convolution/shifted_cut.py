"""How a product over a staged image is cut: what is staged at once, and into how many tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from odtc.backends.kernels.common.places import divisors, size_of
from odtc.backends.kernels.convolution.grid import Staged, Walk
from odtc.backends.kernels.convolution.staging import StagedBlock, phases_of, reach_of, strides_of
from odtc.backends.kernels.product.panel import split_rows
from odtc.backends.kernels.product.tile import Machine, Tile

# Vectors of positions from which on a product does not want more images at once.
_WIDE = 16
# Blocks of which all copies may be there at once: tasks have no more than one each, otherwise.
_FEW_BLOCKS = 2
# Terms from which on adding them to sums in memory costs little.
_WORTH_A_SUM = 128
# Blocks that are worth a trial.
_BLOCKS = 8


@dataclass(frozen=True)
class Shape:
    """Sizes of a product.

    Attributes:
        batch: images.
        channels: of the image, summed over.
        rows: of the weights: channels of the result.
    """

    batch: int
    channels: int
    rows: int


@dataclass(frozen=True)
class ShiftedCut:
    """Blocks of positions, times splits of the rows, for each part of the channels.

    Attributes:
        block: what is staged at once.
        phases: that are staged, by axis.
        staged: positions of a phase and channel in its copy.
        rows: results along the first axis.
        columns: positions of a block, in whole tiles.
        tile: of the product.
        groups: of images.
        bands: of rows of an image.
        tiles: of rows, in a task.
        splits: tasks that have the same block.
        is_shared: whether these share its copy.
        parts: of the channels, each copied at once.
        channels: of a part.
        rounds: in which a task reads as many parts as have room near a core.
    """

    block: StagedBlock
    phases: list[list[int]]
    staged: int
    rows: int
    columns: int
    tile: Tile
    groups: int
    bands: int
    tiles: int
    splits: int
    is_shared: bool
    parts: int
    channels: int
    rounds: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.groups * self.bands


def cut_of(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> ShiftedCut:
    """The cut of a product for these walks over the same staged image."""
    axes = [walk.staged for walk in walks[0]]
    phases = [phases_of(set().union(*(w[d].phases for w in walks))) for d in range(len(axes))]
    planes, dtype = math.prod(map(len, phases)), staged_dtype(shape, walks, machine)
    block = _block(shape, walks, axes, planes, machine, dtype)
    tile = machine.tile(shape.rows, block.positions, dtype)
    columns = -(-block.positions // tile.columns) * tile.columns
    reach = max(reach_of(walk, strides_of(axes)) for walk in walks)
    staged = -(-(columns + reach) // block.inner) * block.inner
    rows = max(walk[0].out for walk in walks)
    groups, bands = shape.batch // block.images, -(-rows // block.rows)
    tiles, splits = split_rows(shape.rows, tile.rows, groups * bands, machine.tasks)
    near = machine.near / (size_of(dtype) * planes * staged)
    is_shared = splits > 1 and groups * bands <= _FEW_BLOCKS
    copying = groups * bands if is_shared else machine.tasks
    parts = _parts(shape.channels, _taps(walks), near, machine.tasks / copying)
    return ShiftedCut(
        block,
        phases,
        staged,
        rows,
        columns,
        tile,
        groups,
        bands,
        tiles,
        splits,
        is_shared,
        parts,
        shape.channels // parts,
        parts if shape.channels > near else 1,
    )


def staged_dtype(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> str:
    """Returns the dtype of the product: only weights are copied for it, images anyway."""
    positions = math.prod(each.out for each in walks[0])
    return machine.dtype(shape.channels * _taps(walks), shape.batch * positions)


def _taps(walks: Sequence[Sequence[Walk]]) -> int:
    return max(math.prod(each.taps for each in walk) for walk in walks)


def _parts(channels: int, taps: int, near: float, least: float) -> int:
    """Parts of the channels: of few enough to stay near a core, and as many as make tasks enough.

    Args:
        channels: all of them.
        taps: terms of the sum for each.
        near: channels that a core has room for near it.
        least: parts that make tasks enough.
    """
    wanted = max(channels / near, least)
    worthy = [
        parts
        for parts in range(1, channels + 1)
        if channels % parts == 0 and channels // parts * taps >= _WORTH_A_SUM
    ] or [1]
    return next((parts for parts in worthy if parts >= wanted), worthy[-1])


def _block(
    shape: Shape,
    walks: Sequence[Sequence[Walk]],
    axes: Sequence[Staged],
    planes: int,
    machine: Machine,
    dtype: str,
) -> StagedBlock:
    """Returns the block to stage: the model's, or another candidate of the same kind."""
    usual = _usual_block(shape, walks, axes, planes, machine, dtype)
    rows, staged, inner = usual.rows, axes[0].span, usual.inner
    out = max(walk[0].out for walk in walks)
    cuts = [(n, out) for n in divisors(shape.batch)]
    if len(walks) == 1:
        cuts += [(1, band) for band in {-(-out // n) for n in range(2, out + 1)}]
    cuts.sort(key=lambda cut: abs(math.log(math.prod(cut) / (usual.images * rows))))
    images, band = machine.decide("block", cuts[:_BLOCKS], (usual.images, rows))
    if (images, band) == (usual.images, rows):
        return usual
    # A band ends among other rows, not at an edge whose zeros it could share.
    return StagedBlock(images, band, staged if band == out else band + walks[0][0].reach, inner)


def _usual_block(
    shape: Shape,
    walks: Sequence[Sequence[Walk]],
    axes: Sequence[Staged],
    planes: int,
    machine: Machine,
    dtype: str,
) -> StagedBlock:
    """Returns the largest block that stays near a core: a band of an image, or several images."""
    inner = math.prod(axis.span for axis in axes[1:])
    rows, staged = max(walk[0].out for walk in walks), axes[0].span
    row_bytes = size_of(dtype) * shape.channels * planes * inner
    room = max(machine.near // row_bytes, 1)
    wide = _WIDE * machine.lanes
    if len(walks) == 1 and staged > room and rows * inner > wide:
        between = walks[0][0].reach
        most = max(room - between, -(-wide // inner))
        band = -(-rows // -(-rows // most))
        return StagedBlock(1, band, band + between, inner)
    blocks = [StagedBlock(images, rows, staged, inner) for images in divisors(shape.batch)]
    return next((block for block in blocks if block.positions >= wide), blocks[-1])
