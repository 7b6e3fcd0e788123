"""How Winograd's form of a convolution is cut, and when it is worth its transforms.

A model of the machine counts cycles of both forms: of products, as tiles have them; and of what is
moved between memory, caches and registers beside them, by the vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.shifted_cut import Shape, ShiftedCut, cut_of, staged_dtype
from odtc.backends.kernels.product.panel import split_rows
from odtc.backends.kernels.product.tile import Machine, Tile

# Taps of an axis, results of a patch along it, and elements of the image that these read.
TAPS, RESULTS, REACH = 3, 2, 4
# Products for each channel of a patch: the points at which polynomials are multiplied.
POINTS = REACH * REACH
# Bytes of the transformed weights: they are a workspace for as long as the kernel runs.
_MOST_WEIGHTS = 1 << 23
# Blocks of which tasks share the transforms, which are all there at once; more are tasks enough.
_FEW_BLOCKS = 2
# Blocks that are worth a trial.
_BLOCKS = 8
# Cycles of a vector that is computed and moved near a core, and of each of its bytes that goes
# beyond; of a weight that is gathered and transformed; of a byte of a workspace.
_NEAR, _BEYOND, _GATHERED, _COLD = 3, 0.05, 6, 0.1
# The decision, and what it is: every tap is multiplied, or patches are.
FORM, DIRECT_FORM, WINOGRAD_FORM = "form", (0,), (1,)
# That work at once.
_CORES = 4
# Terms of sums that are worth to wait in memory.
_LONG = 48
# Cycles of a byte that comes from beyond the second level, and how many times as much as is near a
# core a block may have, where its points are multiplied one after the other.
_FAR, _MOST_AWAY = 0.15, 8
# How much faster the form must be by the model to be taken.
_MARGIN = 1.1


@dataclass(frozen=True)
class PatchCut:
    """Blocks of patches, times splits of the rows of the weights.

    A patch is two rows and columns of results. Patches are counted row by row, through all images.

    Attributes:
        high, wide: patches of an image.
        rows: of patches, in a block.
        total: of patches in all images.
        tile: of the products.
        panels: of tiles, side by side.
        tiles: of rows of the weights, in a task.
        splits: tasks that have the same block, and share what is transformed of it.
    """

    high: int
    wide: int
    rows: int
    total: int
    tile: Tile
    panels: int
    tiles: int
    splits: int

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one reaches back over the one before it."""
        return -(-self.total // self.rows)

    @property
    def used(self) -> int:
        """Patches of a block."""
        return self.rows * self.wide

    @property
    def columns(self) -> int:
        """Patches of a block, in whole tiles."""
        return self.panels * self.tile.columns


def is_by_points(shape: Shape, machine: Machine) -> bool:
    """Whether a point is multiplied by all rows before the next one, as `product.py` says."""
    return machine.first_bytes > 0 and shape.channels >= _LONG


def is_winograd(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> bool:
    """Whether a product over a staged image is computed in Winograd's form."""
    if not _fits(shape, walks, machine):
        return False
    usual = WINOGRAD_FORM if _gain(shape, walks, machine) > _MARGIN else DIRECT_FORM
    return machine.decide(FORM, [DIRECT_FORM, WINOGRAD_FORM], usual) == WINOGRAD_FORM


def winograd_gain(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> float:
    """How many times as fast as the direct form that one is which the model takes."""
    gain = _gain(shape, walks, machine) if _fits(shape, walks, machine) else 1.0
    return gain if gain > _MARGIN else 1.0


def _gain(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> float:
    """Cycles of the direct form over those of Winograd's."""
    model = replace(machine, decisions=None)
    direct = _direct_cycles(shape, walks, cut_of(shape, walks, model), machine)
    return direct / _patch_cycles(shape, patch_cut(shape, walks[0], model), machine)


def patch_cut(shape: Shape, walk: Sequence[Walk], machine: Machine) -> PatchCut:
    """The cut of a product for a walk that fits."""
    high, wide = (-(-axis.out // RESULTS) for axis in walk)
    total, model = shape.batch * high, replace(machine, decisions=None)
    near = machine.near * (_MOST_AWAY if is_by_points(shape, machine) else 1)
    room = max(near // (4 * POINTS * shape.channels * wide), 1)

    def of(rows: int, machine: Machine) -> PatchCut:
        tile = machine.tile(shape.rows, rows * wide)
        blocks = -(-total // rows)
        wanted = model.tasks if blocks <= _FEW_BLOCKS else 1
        tiles, splits = split_rows(shape.rows, tile.rows, blocks, wanted)
        panels = -(-rows * wide // tile.columns)
        return PatchCut(high, wide, rows, total, tile, panels, tiles, splits)

    # As even cuts as can be.
    cuts = {-(-total // blocks) for blocks in range(1, total + 1)}
    likely = sorted(
        (rows for rows in cuts if rows <= 2 * room),
        key=lambda rows: (
            _patch_cycles(shape, of(rows, model), model)
            + _far_cycles(shape, of(rows, model), model),
            rows,
        ),
    )
    usual = next(rows for rows in likely if rows <= room)
    (rows,) = machine.decide("rows", [(rows,) for rows in likely[:_BLOCKS]], (usual,))
    return of(rows, machine)


def _fits(shape: Shape, walks: Sequence[Sequence[Walk]], machine: Machine) -> bool:
    """Whether the form is one of the product: of three taps side by side, in float32."""
    walk = walks[0]
    return (
        len(walks) == 1
        and len(walk) == RESULTS
        and all(map(_is_plain, walk))
        and 4 * POINTS * shape.rows * shape.channels <= _MOST_WEIGHTS
        and staged_dtype(shape, walks, machine) == "float32"
    )


def _is_plain(walk: Walk) -> bool:
    """Whether neighbours among the results read three neighbours each, and are neighbours."""
    shifts = [int(walk.shift(tap)) for tap in range(walk.taps)]
    return (
        shifts == [*range(TAPS)]
        and walk.staged.step == 1
        and walk.staged.before >= 0
        and [int(walk.target(o)) for o in range(RESULTS)] == [*range(RESULTS)]
    )


def _direct_cycles(
    shape: Shape, walks: Sequence[Sequence[Walk]], cut: ShiftedCut, machine: Machine
) -> float:
    """Returns the cycles of the form that multiplies every tap."""
    products = cut.tile.cycles(shape.rows, cut.columns) / 2 * shape.channels * TAPS * TAPS
    moved = shape.channels * cut.staged + shape.rows * cut.columns
    return cut.blocks * (products + moved / machine.lanes * _NEAR)


def _patch_cycles(shape: Shape, cut: PatchCut, machine: Machine) -> float:
    """Returns the cycles of Winograd's form."""
    vectors = POINTS * cut.columns / machine.lanes
    beyond = _NEAR + _BEYOND * 4 * machine.lanes
    products = cut.tile.cycles(shape.rows, cut.columns) / 2 * shape.channels * POINTS
    transforms = vectors * (shape.channels * beyond + shape.rows * _NEAR)
    weights = shape.rows * shape.channels
    # Every block needs all weights near its core, which come by a vector a cycle.
    read = POINTS * weights / machine.lanes
    # Workspaces are nowhere near a core when a call begins: it has to bring them there.
    used = 4 * POINTS * (weights + shape.channels * cut.columns) * _COLD
    # Tasks that share a block are enough for all cores; blocks may leave some without.
    blocks = cut.blocks if cut.splits > 1 else -(-cut.blocks // _CORES) * _CORES
    return blocks * (products + transforms + read) + weights * _GATHERED + used


def _far_cycles(shape: Shape, cut: PatchCut, machine: Machine) -> float:
    """Returns the cycles of what moves beyond the second level if points follow each other.

    The patches of a block and the sums of their products wait for each other, and so does what a
    block has of the weights for the next one: only what fits is found near.
    """
    if not is_by_points(shape, machine):
        return 0.0
    weights = 4 * POINTS * shape.rows * shape.channels
    waiting = 4 * POINTS * (shape.channels + shape.rows) * cut.columns
    moved = 2 * waiting if waiting > machine.near else 0
    moved += weights if waiting + weights > 2 * machine.near else 0
    return cut.blocks * moved * _FAR
