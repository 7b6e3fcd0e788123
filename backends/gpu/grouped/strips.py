"""How work-items walk over the planes of a convolution: each takes a strip of a column.

    items side by side      columns side by side, so that what they read lies side by side
    an item                 some rows of its column, one below the other, which share rows of input

Where a window is, and which of its columns are inside, an item finds once for its strip. A row is
tested only where it may be outside, and every read is of a place inside: what is not of the image
becomes zero after it was read, so that no read waits behind a branch.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.gpu.machine import Gpu
from odtc.backends.kernels.common.places import Readable, index, load
from odtc.backends.kernels.convolution.grid import ConvolutionAxis

# Rows of a strip, at most, and rows of input that it reads, unless a single row reads more.
_ROWS, _READ = 8, 10


@dataclass(frozen=True)
class Place:
    """An index along an axis of a tensor, which may lie outside of it.

    Attributes:
        at: the index.
        low, high: bounds of it.
        size: of the axis.
        tests: more conditions under which there is an element.
    """

    at: ir.Expr
    low: int
    high: int
    size: int
    tests: tuple[ir.Expr, ...] = ()

    @property
    def inside(self) -> ir.Expr:
        """The nearest index that the axis has."""
        at = self.at
        if self.high >= self.size:
            at = tirx.min(at, index(self.size - 1))
        return tirx.max(at, index(0)) if self.low < 0 else at

    @property
    def conditions(self) -> list[ir.Expr]:
        """What tells whether the index is one of the axis."""
        tests = list(self.tests)
        if self.high >= self.size:
            tests.append(self.at < self.size)
        if self.low < 0:
            tests.append(self.at >= 0)
        return tests


@dataclass(frozen=True)
class Tap:
    """A row of a strip and a row of the window that meet in a row of input.

    Attributes:
        row: of the strip.
        tap: of the window.
    """

    row: int
    tap: int


@dataclass(frozen=True)
class Strips:
    """How columns are cut into strips.

    Attributes:
        rows: of a strip.
        length: of a column.
        step: rows of input from one strip to the next.
        taps: by the first strip's row of input, what meets there.
    """

    rows: int
    length: int
    step: int
    taps: dict[int, list[Tap]]

    @property
    def count(self) -> int:
        """Strips of a column."""
        return -(-self.length // self.rows)

    @property
    def is_whole(self) -> bool:
        """Whether all strips have all their rows."""
        return self.length % self.rows == 0

    def row_of_input(self, strip: ir.Expr, first: int, size: int) -> Place:
        """A row of input, of so many.

        Args:
            strip: the number of the strip.
            first: that row of the first strip.
            size: rows that there are.
        """
        last = (self.count - 1) * self.step + first
        return Place(strip * self.step + first, first, last, size)


def strips_forward(axis: ConvolutionAxis, rows: int) -> Strips:
    """Strips of results that read `x[o * stride + tap * dilation - pad]`."""
    taps: dict[int, list[Tap]] = {}
    for row in range(rows):
        for tap in range(axis.kernel):
            first = row * axis.stride + tap * axis.dilation - axis.pad
            taps.setdefault(first, []).append(Tap(row, tap))
    return Strips(rows, axis.out, rows * axis.stride, dict(sorted(taps.items())))


def strips_backward(axis: ConvolutionAxis, rows: int) -> Strips:
    """Strips of an image that read `dy[(i + pad - tap * dilation) / stride]` where that divides.

    Args:
        axis: with a stride or a dilation of one.
        rows: of a strip, a multiple of the stride.
    """
    taps: dict[int, list[Tap]] = {}
    for row in range(rows):
        for tap in range(axis.kernel):
            first, rest = divmod(row + axis.pad - tap * axis.dilation, axis.stride)
            if rest == 0:
                taps.setdefault(first, []).append(Tap(row, tap))
    return Strips(rows, axis.size, rows // axis.stride, dict(sorted(taps.items())))


def strips_of(
    cut: Callable[[ConvolutionAxis, int], Strips],
    axis: ConvolutionAxis,
    multiple: int,
    columns: int,
    gpu: Gpu,
) -> Strips:
    """The strips of an axis, as high as it pays.

    Args:
        cut: `strips_forward` or `strips_backward`.
        axis: along which strips lie.
        multiple: of the rows of a strip.
        columns: that there are, of all planes.
        gpu: the machine.
    """
    most = max(min(_ROWS, gpu.accumulators // 4) // multiple, 1)
    candidates = [cut(axis, count * multiple) for count in range(1, most + 1)]
    # The gradient of an image that is not read everywhere has rows without a tap.
    fitting = [each for each in candidates if len(each.taps) <= _READ] or candidates[:1]
    busy = [each for each in fitting if each.count * columns >= gpu.groups * gpu.group]
    usual = min(busy or fitting[:1], key=lambda each: (each.count * len(each.taps), each.rows))
    (rows,) = gpu.decide("rows", [(each.rows,) for each in fitting], (usual.rows,))
    return cut(axis, rows)


@contextmanager
def items(count: int, gpu: Gpu) -> Iterator[ir.Expr]:
    """A launch of a work-item for each of so many numbers."""
    size = gpu.group
    while size > 1 and size // 2 >= count:
        size //= 2
    with (
        T.thread_binding(-(-count // size), "blockIdx.x") as group,
        T.thread_binding(size, "threadIdx.x") as item,
        T.sblock("strip"),
    ):
        number = group * size + item
        if count % size:
            with T.If(number < count), T.Then():
                yield number
        else:
            yield number


def columns_forward(axis: ConvolutionAxis, at: ir.Expr) -> list[Place]:
    """Where the taps of a result's column read."""
    offsets = [tap * axis.dilation - axis.pad for tap in range(axis.kernel)]
    last = (axis.out - 1) * axis.stride
    return [Place(at * axis.stride + by, by, last + by, axis.size) for by in offsets]


def columns_backward(axis: ConvolutionAxis, at: ir.Expr) -> list[tuple[Place, ir.Expr]]:
    """Where in a gradient an image's column reads, and by which tap.

    With a stride, items side by side have other taps, as many as there are at most.

    Args:
        axis: with a stride or a dilation of one.
        at: the column.
    """
    if axis.stride == 1:
        offsets = [axis.pad - tap * axis.dilation for tap in range(axis.kernel)]
        last = axis.size - 1
        places = [Place(at + by, by, last + by, axis.out) for by in offsets]
        return [(place, index(tap)) for tap, place in enumerate(places)]
    first, phase = (at + axis.pad) // axis.stride, (at + axis.pad) % axis.stride
    low, high = axis.pad // axis.stride, (axis.size - 1 + axis.pad) // axis.stride
    found = []
    for number in range(-(-axis.kernel // axis.stride)):
        tap = phase + number * axis.stride
        is_tap = (number + 1) * axis.stride <= axis.kernel
        tests = () if is_tap else (tap < axis.kernel,)
        safe = tap if is_tap else tirx.min(tap, index(axis.kernel - 1))
        place = Place(first - number, low - number, high - number, axis.out, tests)
        found.append((place, safe))
    return found


def element(tensor: Readable, outer: Sequence[ir.Expr], places: Sequence[Place]) -> ir.Expr:
    """Emits the read of an element, which is zero if a place is none of the tensor's."""
    value = T.bind(load(tensor, [*outer, *(place.inside for place in places)]))
    tests = [test for place in places for test in place.conditions]
    return T.bind(tirx.Select(tirx.all(*tests), value, tirx.const(0.0))) if tests else value


def registers(count: int) -> tirx.Buffer:
    """Emits so many sums, which begin with zero."""
    held = T.sblock_alloc_buffer((count,), "float32", scope="local")
    for number in range(count):
        T.buffer_store(held, tirx.const(0.0), [number])
    return held


def add_to(sums: tirx.Buffer, number: int, value: ir.Expr) -> None:
    """Emits an addition to a sum."""
    T.buffer_store(sums, sums[number] + value, [number])


def two_axes(numbers: Sequence[int]) -> list[ConvolutionAxis]:
    """The axes of a convolution, from the numbers in the mark of its product."""
    return [ConvolutionAxis(*numbers[:6]), ConvolutionAxis(*numbers[6:])]


def sizes_of(tensor: Readable) -> list[int]:
    """A tensor's sizes as numbers."""
    return [int(size) for size in tensor.shape]
