"""Passes over the pixels of tensors whose channels are last: what lies side by side are channels.

A pass reads whole pixels, one behind the other, in the order in which they lie: a block of channels
of all pixels would have lines in as many places, which no hardware foresees. What is summed over
pixels is kept for all channels, in a row that stays near a core. Each task has some pixels, and its
own sums.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.places import index
from odtc.backends.kernels.tile import TASKS
from odtc.backends.kernels.vectors import ramp, splat, vector_type

# Pixels that are added up before their sum is added to that of the task.
_RUN = 4
# Elements from which on a pass is worth several threads.
_PARALLEL = 1 << 14

# From a pixel and the channels of a vector to the terms of sums there, or to nothing: it stores.
Terms = Callable[[ir.Expr, "Place"], Sequence[ir.Expr]]


@dataclass(frozen=True)
class Place:
    """The channels of a vector.

    Attributes:
        channels: their indices in a tensor.
        slot: in a row of sums, of which no element belongs to two vectors.
    """

    channels: ir.Expr
    slot: ir.Expr


@dataclass(frozen=True)
class Pixels:
    """Pixels of all samples, and how their channels are cut into vectors; the last reaches back.

    Attributes:
        count: of pixels.
        channels: of each.
        lanes: elements of a vector, at most.
    """

    count: int
    channels: int
    lanes: int

    @property
    def width(self) -> int:
        """Elements of a vector: the largest power of two that fits."""
        return min(self.lanes, 1 << (self.channels.bit_length() - 1))

    @property
    def vectors(self) -> int:
        """Vectors that cover the channels."""
        return -(-self.channels // self.width)

    @property
    def tasks(self) -> int:
        """Tasks that share the pixels: of equal parts."""
        if self.count * self.channels < _PARALLEL:
            return 1
        return max(each for each in range(1, TASKS + 1) if self.count % each == 0)

    def number(self, value: float) -> ir.Expr:
        """A number in all elements of a vector."""
        return splat(tirx.const(value, "float32"), self.width)

    def load(self, buffer: tirx.Buffer, at: Sequence[ir.Expr]) -> ir.Expr:
        """A vector as float32, whatever it is stored in."""
        return tirx.BufferLoad(buffer, list(at)).astype(vector_type("float32", self.width))

    def row(self) -> tirx.Buffer:
        """A row of numbers, one for each channel, by slots."""
        return T.sblock_alloc_buffer((self.vectors * self.width,), "float32")

    @contextmanager
    def each_vector(self) -> Iterator[Place]:
        """A loop over the vectors of a pixel."""
        with T.serial(self.vectors) as vector:
            slot = vector * self.width
            first = tirx.min(slot, index(self.channels - self.width))
            yield Place(ramp(first, self.width), ramp(slot, self.width))

    def sums(self, terms: Terms, count: int = 1) -> list[tirx.Buffer]:
        """Emits sums over all pixels, of so many terms; gives their rows."""
        of_tasks = T.sblock_alloc_buffer((count, self.tasks, self.vectors * self.width), "float32")
        each = self.count // self.tasks
        run = max(size for size in range(1, _RUN + 1) if each % size == 0)
        with T.parallel(self.tasks) as task:
            for number in range(count):
                with self.each_vector() as place:
                    T.buffer_store(of_tasks, self.number(0.0), [number, task, place.slot])
            with T.serial(each // run) as step, self.each_vector() as place:
                first = task * each + step * run
                found = [terms(first + at, place) for at in range(run)]
                for number, values in enumerate(zip(*found, strict=True)):
                    at = [index(number), task, place.slot]
                    total = tirx.BufferLoad(of_tasks, at)
                    T.buffer_store(of_tasks, total + _pairwise(values), at)
        rows = []
        for number in range(count):
            row = self.row()
            with self.each_vector() as place:
                parts = [
                    tirx.BufferLoad(of_tasks, [index(number), index(task), place.slot])
                    for task in range(self.tasks)
                ]
                T.buffer_store(row, _pairwise(parts), [place.slot])
            rows.append(row)
        return rows

    def write(self, body: Callable[[ir.Expr, Place], None]) -> None:
        """Runs a body that stores for the vectors of all pixels."""
        each = self.count // self.tasks
        with T.parallel(self.tasks) as task, T.serial(each) as step:
            pixel = task * each + step
            with self.each_vector() as place:
                body(pixel, place)


def _pairwise(parts: Sequence[ir.Expr]) -> ir.Expr:
    """The sum of numbers, half by half: its rounding grows with the logarithm of their count."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _pairwise(parts[:half]) + _pairwise(parts[half:])
