"""How groups of work-items have the channels of a tensor: each as a whole, or in parts."""

from dataclasses import dataclass

from tvm import ir

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.rows.teams import Held
from odtc.backends.kernels.norm.batch_norm import Shape

# Floats that an item reads before it computes with them, where a channel is cut into parts.
_AT_ONCE = 16
# Of scalars, fewer: each of them has a place of its own to be found.
_SCALARS_AT_ONCE = 8
# Groups for each one that keeps the GPU busy: an item waits for what it reads.
_MORE_GROUPS = 8


@dataclass(frozen=True)
class Cut:
    """How groups have the elements of a channel.

    Attributes:
        channels: of the tensor.
        samples: and
        size: elements of a plane: a channel has so many planes of so many elements.
        width: elements of a vector.
        group: items of a group.
        count: vectors that an item has at once.
        turns: how often, one after the other.
        parts: groups that have a channel.
    """

    channels: int
    samples: int
    size: int
    width: int
    group: int
    count: int
    turns: int
    parts: int

    @property
    def is_held(self) -> bool:
        """Whether a group has a channel at once."""
        return self.parts == self.turns == 1

    @property
    def vectors(self) -> int:
        """Vectors of a channel."""
        return self.samples * self.size // self.width

    @property
    def own(self) -> int:
        """Vectors of a part, but for the last one."""
        return self.turns * self.count * self.group

    @property
    def elements(self) -> float:
        """Elements of a channel."""
        return float(self.samples * self.size)

    def block(self, item: ir.Expr, part: ir.Expr | int, turn: ir.Expr | int) -> Held:
        """What an item has in a turn."""
        blocks, number = self.parts * self.turns, part * self.turns + turn
        first = number * (self.count * self.group)
        shape = self.samples, self.size, self.width, self.group
        return Held(*shape, item, first, self.count, blocks)


def cut_of(shape: Shape, width: int, tensors: int, gpu: Gpu) -> Cut:
    """A part for each channel if registers hold it, or as many as keep the GPU busy.

    Args:
        shape: samples, channels and elements of a plane.
        width: elements of a vector.
        tensors: that are read.
        gpu: the machine.
    """
    samples, channels, size = shape
    vectors = samples * size // width
    held = -(-vectors // gpu.group)
    if max(2, tensors) * held * width <= gpu.accumulators:
        return Cut(channels, samples, size, width, gpu.group, held, 1, 1)
    count = _AT_ONCE // width if width > 1 else _SCALARS_AT_ONCE
    blocks = -(-vectors // (count * gpu.group))
    # Parts are merged by a group, of which each item has one.
    turns = max(blocks * channels // (_MORE_GROUPS * gpu.groups), -(-blocks // gpu.group), 1)
    parts = -(-blocks // turns)
    return Cut(channels, samples, size, width, gpu.group, count, turns, parts)
