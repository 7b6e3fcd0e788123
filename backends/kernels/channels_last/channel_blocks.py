"""Blocks of channels of tensors that have these last: some vectors, whose sums are registers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import ramp, splat, vector_type

# Vectors of channels that a task takes, at most.
VECTORS = 4


@dataclass(frozen=True)
class Channels:
    """How channels are cut into blocks of vectors; the last block reaches back.

    Attributes:
        count: of channels.
        lanes: elements of a vector, at most.
        most: vectors of a block, at most.
    """

    count: int
    lanes: int
    most: int = VECTORS

    @property
    def width(self) -> int:
        """Elements of a vector: the largest power of two that fits."""
        return min(self.lanes, 1 << (self.count.bit_length() - 1))

    @property
    def vectors(self) -> int:
        """Vectors of a block: as many as leave none over, if that goes."""
        whole = self.count // self.width
        even = max(each for each in range(1, self.most + 1) if whole % each == 0)
        return even if even > 1 else min(whole, self.most)

    @property
    def blocks(self) -> int:
        """Blocks that cover all channels."""
        return -(-self.count // (self.vectors * self.width))

    def first(self, block: ir.Expr) -> ir.Expr:
        """Emits the first channel of a block."""
        size = self.vectors * self.width
        return T.bind(tirx.min(block * size, self.count - size))

    def at(self, first: ir.Expr, vector: int) -> ir.Expr:
        """The channels of a vector."""
        return ramp(first + vector * self.width, self.width)

    def number(self, value: float) -> ir.Expr:
        """A number in all elements of a vector."""
        return splat(tirx.const(value, "float32"), self.width)

    def load(self, buffer: tirx.Buffer, at: Sequence[ir.Expr]) -> ir.Expr:
        """A vector as float32, whatever it is stored in."""
        return tirx.BufferLoad(buffer, list(at)).astype(vector_type("float32", self.width))

    def registers(self, *sizes: int) -> "Registers":
        """Emits so many vectors of zeros for each vector of a block."""
        shape = (*sizes, self.vectors, self.width)
        registers = Registers(T.sblock_alloc_buffer(shape, "float32", scope="local"), self.width)
        for at in product(*map(range, shape[:-1])):
            registers.put(at, self.number(0.0))
        return registers


@dataclass(frozen=True)
class Registers:
    """Vectors that stay in registers: their places are known when the kernel is written.

    Attributes:
        buffer: of them; the last axis is a vector.
        width: elements of a vector.
    """

    buffer: tirx.Buffer
    width: int

    def get(self, at: Sequence[int]) -> ir.Expr:
        """A vector."""
        return tirx.BufferLoad(self.buffer, [*map(index, at), ramp(index(0), self.width)])

    def put(self, at: Sequence[int], value: ir.Expr) -> None:
        """Emits the store of a vector."""
        T.buffer_store(self.buffer, value, [*map(index, at), ramp(index(0), self.width)])

    def add(self, at: Sequence[int], value: ir.Expr) -> None:
        """Emits an addition to a vector."""
        self.put(at, self.get(at) + value)
