"""Blocks of positions of images, as vectors: whole ones, and of each image what they leave."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx

from odtc.backends.kernels.common.places import divisors, index, unflatten
from odtc.backends.kernels.common.vectors import ramp
from odtc.backends.kernels.product.tile import Extent, Machine

# Parts of what is near a core that the copy of a block takes; blocks that are worth a trial.
PART, _BLOCKS = 8, 8


@dataclass(frozen=True)
class LaneBlock:
    """Positions of which the columns are copied at once, as whole vectors.

    Attributes:
        images: of a block.
        vectors: of each of them, at most.
        bands: blocks that an image is cut into; the last one may have fewer vectors.
        groups: of images.
        lanes: of a vector.
        positions: of an image.
    """

    images: int
    vectors: int
    bands: int
    groups: int
    lanes: int
    positions: int

    @property
    def has_rest(self) -> bool:
        """Whether positions are left after the last whole vector of an image."""
        return self.positions % self.lanes > 0

    @property
    def length(self) -> int:
        """Elements of a copy: of each image its vectors, and then one for what is left."""
        return self.images * (self.vectors + self.has_rest) * self.lanes

    def part(self, number: ir.Expr) -> "Part":
        """Returns one of the blocks."""
        group, band = unflatten(number, (self.groups, self.bands))
        whole = self.positions // self.lanes
        count, left = index(self.vectors), index(self.images)
        if whole % self.vectors:
            count = tirx.min(count, whole - band * self.vectors)
        if self.bands > 1:
            left = tirx.Select(band == self.bands - 1, left, index(0))
        return Part(self, group * self.images, band * self.vectors, count, left)


@dataclass(frozen=True)
class Part:
    """A block.

    Attributes:
        block: its size.
        image, vector: the first ones.
        count: of vectors.
        left: images with positions left.
    """

    block: LaneBlock
    image: ir.Expr
    vector: ir.Expr
    count: ir.Expr
    left: ir.Expr

    def runs(self) -> list["VectorRun"]:
        """Whole vectors; what is left, in a vector that reaches back over some of these."""
        of, lanes = self.block, self.block.lanes
        first = self.vector * lanes
        whole = VectorRun(
            [of.images, self.count],
            lambda image, v: (self.image + image, ramp(first + v * lanes, lanes)),
            lambda image, v: ramp((image * of.vectors + v) * lanes, lanes),
        )
        if not of.has_rest:
            return [whole]
        behind = of.images * of.vectors
        rest = VectorRun(
            [self.left],
            lambda image: (self.image + image, ramp(index(of.positions - lanes), lanes)),
            lambda image: ramp((behind + image) * lanes, lanes),
            lanes - of.positions % lanes,
        )
        return [whole, rest]


@dataclass(frozen=True)
class VectorRun:
    """Vectors of a block that are alike.

    Attributes:
        extents: of the loops over them.
        place: of one, in its tensor: image and positions.
        near: in a copy.
        known: elements at its begin that others have, too.
    """

    extents: Sequence[Extent]
    place: Callable[..., tuple[ir.Expr, ir.Expr]]
    near: Callable[..., ir.Expr]
    known: int = 0


def block_of(batch: int, positions: int, columns: int, machine: Machine) -> LaneBlock:
    """Parts of an image that are alike, or whole images: as many as have room, of enough blocks."""
    lanes = machine.lanes
    vectors = positions // lanes
    room = min(machine.near // PART // (4 * lanes * columns), batch * vectors // machine.tasks)
    room = max(room, 1)
    parts = [(1, n) for n in divisors(vectors)[:-1]]
    cuts = [*parts, *((images, vectors) for images in divisors(batch))]
    usual = max(cut for cut in cuts if math.prod(cut) <= room)
    if math.prod(usual) < room / 2:
        # Few divisors: the last part of an image has less of it than others.
        usual = (1, -(-vectors // -(-vectors // room)))
    cuts.sort(key=lambda cut: abs(math.log(math.prod(cut) / math.prod(usual))))
    images, each = machine.decide("block", cuts[:_BLOCKS], usual)
    return LaneBlock(images, each, -(-vectors // each), batch // images, lanes, positions)
