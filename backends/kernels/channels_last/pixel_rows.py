"""Passes over the pixels of tensors whose channels are last: what lies side by side are channels.

A pass reads whole pixels, one after the other, in the order in which they lie: a block of channels
of all pixels would have lines in as many places, which no hardware foresees. What is summed over
pixels is kept for all channels, in a row that stays near a core. Each task has some pixels, and its
own sums.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index
from odtc.backends.kernels.common.vectors import ramp, splat, vector_type
from odtc.backends.kernels.product.tile import TASKS

# Pixels that are added up before their sum is added to that of the task, and those whose mean and
# squares are, which are registers.
_RUN, _MOMENTS = 4, 8
# Elements from which on a pass is worth several threads.
_PARALLEL = 1 << 14

# From a pixel and the channels of a vector to the terms of sums there, or to nothing: it stores.
Terms = Callable[[ir.Expr, "ChannelVector"], Sequence[ir.Expr]]


@dataclass(frozen=True)
class ChannelVector:
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
    def each_vector(self) -> Iterator[ChannelVector]:
        """A loop over the vectors of a pixel."""
        with T.serial(self.vectors) as vector:
            slot = vector * self.width
            first = tirx.min(slot, index(self.channels - self.width))
            yield ChannelVector(ramp(first, self.width), ramp(slot, self.width))

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

    def moments(
        self, value: Callable[[ir.Expr, ChannelVector], ir.Expr]
    ) -> tuple[tirx.Buffer, ...]:
        """Emits means and variances over all pixels, in one pass; gives their rows.

        The squares are of distances from the mean of few pixels, and join those of all before them
        (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
        variances", 1979): as exact as a second pass, without reading all of the tensor again.
        """
        of_tasks = T.sblock_alloc_buffer((2, self.tasks, self.vectors * self.width), "float32")
        each = self.count // self.tasks
        run = max(size for size in range(1, _MOMENTS + 1) if each % size == 0)
        with T.parallel(self.tasks) as task:
            for number in range(2):
                with self.each_vector() as place:
                    T.buffer_store(of_tasks, self.number(0.0), [number, task, place.slot])
            with T.serial(each // run) as step:
                before = T.bind((step * run).astype("float32"))
                share = T.bind(tirx.const(run, "float32") / (before + tirx.const(run, "float32")))
                with self.each_vector() as place:
                    first = task * each + step * run
                    found = [T.bind(value(first + at, place)) for at in range(run)]
                    self._join(of_tasks, task, place, found, (before, share))
        means, variances = self.row(), self.row()
        with self.each_vector() as place:
            parts, squares = (
                [
                    T.bind(tirx.BufferLoad(of_tasks, [index(number), index(task), place.slot]))
                    for task in range(self.tasks)
                ]
                for number in range(2)
            )
            mean = T.bind(_pairwise(parts) * self.number(1 / self.tasks))
            apart = _pairwise([(part - mean) * (part - mean) for part in parts])
            total = _pairwise(squares) * self.number(1 / self.count)
            T.buffer_store(means, mean, [place.slot])
            T.buffer_store(variances, total + apart * self.number(1 / self.tasks), [place.slot])
        return means, variances

    def _join(
        self,
        of_tasks: tirx.Buffer,
        task: ir.Expr,
        place: ChannelVector,
        found: Sequence[ir.Expr],
        scalars: tuple[ir.Expr, ir.Expr],
    ) -> None:
        """Emits what some pixels do to the mean and the squares of those before them."""
        (mean_at, squares_at), (before, share) = (
            [[index(number), task, place.slot] for number in range(2)],
            scalars,
        )
        own = T.bind(_pairwise(found) * self.number(1 / len(found)))
        mean = T.bind(tirx.BufferLoad(of_tasks, mean_at))
        apart = T.bind(own - mean)
        squares = _pairwise([(each - own) * (each - own) for each in found])
        between = apart * apart * splat(before * share, self.width)
        T.buffer_store(of_tasks, mean + apart * splat(share, self.width), mean_at)
        total = tirx.BufferLoad(of_tasks, squares_at)
        T.buffer_store(of_tasks, total + squares + between, squares_at)

    def write(self, body: Callable[[ir.Expr, ChannelVector], None]) -> None:
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
