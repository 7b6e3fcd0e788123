"""Image planes as one line of vectors: what average pooling is built from.

A window walks over a plane that is staged row after row, each row followed by so much padding that
a tap beyond its end, or in front of the next one, reads padding. Then a tap is one shift of the
whole line: results are computed in full vectors, however narrow the plane is, and what falls in
between two rows is never read. A window with a stride reads planes that the stride is taken out of:
element `r * stride + phase` of an axis is element `r` of that phase, so each tap is again a shift.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.vectors import (
    Index,
    deinterleave,
    each_block,
    each_vector,
    interleave,
    ramp,
    splat,
)
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN

_MOST_TAPS, _MOST_PHASES = 81, 16

Pair = tuple[int, int]
Read = Callable[[Index, Index, int], ir.Expr]
Write = Callable[[Index, Index, int, ir.Expr], None]


@dataclass(frozen=True)
class Tap:
    """A position in the window.

    Attributes:
        at: row and column in the window.
        phase: number of the plane that it reads, of those that the stride leaves.
        shift: rows and columns from an output to what it reads there.
    """

    at: Pair
    phase: int
    shift: Pair


@dataclass(frozen=True)
class Window:
    """How a window walks over an image; each pair is for rows and columns.

    Attributes:
        image: sizes of the image.
        out: numbers of steps.
        kernel: its sizes.
        stride: steps of the window.
        dilation: steps inside the window.
        pad: rows above and columns left of the image.
    """

    image: Pair
    out: Pair
    kernel: Pair
    stride: Pair
    dilation: Pair
    pad: Pair

    @property
    def phase_size(self) -> Pair:
        """Sizes of the largest plane that the stride leaves."""
        height, width = self.image
        return -(-height // self.stride[0]), -(-width // self.stride[1])

    @property
    def phases(self) -> int:
        """Number of planes that the stride leaves."""
        return self.stride[0] * self.stride[1]

    @property
    def is_small(self) -> bool:
        """Whether a kernel may spell out all taps, and the planes that the stride leaves."""
        return math.prod(self.kernel) <= _MOST_TAPS and self.has_few_phases

    @property
    def has_few_phases(self) -> bool:
        """Whether a kernel may spell out the planes that the stride leaves."""
        return self.phases <= _MOST_PHASES

    def taps(self) -> list[Tap]:
        """The positions in the window, row by row."""
        found = []
        for at in product(*map(range, self.kernel)):
            offsets = [
                a * gap - pad for a, gap, pad in zip(at, self.dilation, self.pad, strict=True)
            ]
            row, column = (divmod(o, step) for o, step in zip(offsets, self.stride, strict=True))
            phase = row[1] * self.stride[1] + column[1]
            found.append(Tap((at[0], at[1]), phase, (row[0], column[0])))
        return found


@dataclass(frozen=True)
class PlaneLine:
    """Where the elements of a plane lie in a line.

    Attributes:
        pitch: elements from a row to the next one.
        base: of the first element; in front of it there is padding.
        size: elements, in whole vectors.
        vectors: vectors that hold all results.
    """

    pitch: int
    base: int
    size: int
    vectors: int

    def at(self, row: Index, column: Index) -> Index:
        """Position of an element of the plane."""
        return self.base + row * self.pitch + column

    def shifted(self, shift: Pair) -> int:
        """Position of what the first result reads by a tap."""
        return self.base + shift[0] * self.pitch + shift[1]

    def shifted_back(self, shift: Pair) -> int:
        """Position of the step whose tap reads the first element."""
        return self.base - shift[0] * self.pitch - shift[1]


def line_of(source: Pair, target: Pair, shifts: list[Pair], lanes: int) -> PlaneLine:
    """The line for results of the sizes `target`, each read from `source` by all the shifts."""
    before = [max(0, -min(each)) for each in zip(*shifts, strict=True)]
    behind = [max(0, *each) for each in zip(*shifts, strict=True)]
    pitch = max(source[1] + before[1], target[1] + behind[1])
    base = before[0] * pitch + before[1]
    vectors = -(-((target[0] - 1) * pitch + target[1]) // lanes)
    last_read = vectors * lanes + behind[0] * pitch + behind[1]
    size = base + max(last_read, source[0] * pitch)
    return PlaneLine(pitch, base, -(-size // lanes) * lanes, vectors)


def input_line(window: Window, lanes: int) -> PlaneLine:
    """The line of the image's phases, for results as the window's steps."""
    return line_of(window.phase_size, window.out, [tap.shift for tap in window.taps()], lanes)


def output_line(window: Window, lanes: int) -> PlaneLine:
    """The line of what belongs to the steps, for results as the image's phases."""
    shifts = [(-tap.shift[0], -tap.shift[1]) for tap in window.taps()]
    return line_of(window.out, window.phase_size, shifts, lanes)


def fill(buffer: tirx.Buffer, value: ir.Expr, lanes: int) -> None:
    """Emits: every line of a buffer `[lines, size]` becomes `value`."""
    lines, size = (int(extent) for extent in buffer.shape)
    with T.serial(0, lines) as line:
        each_vector(
            size // lanes,
            lanes,
            lambda at: T.buffer_store(buffer, splat(value, lanes), [line, ramp(at, lanes)]),
        )


def copy_rows(sizes: Pair, lanes: int, emit: Callable[[Index, Index, int], None]) -> None:
    """Emits `emit(row, column, width)` for vectors that cover a plane."""
    with T.serial(0, sizes[0]) as row:
        each_block(sizes[1], lanes, lambda column, width: emit(row, column, width))


def stage(buffer: tirx.Buffer, line: PlaneLine, window: Window, lanes: int, read: Read) -> None:
    """Emits: the phases of an image into their lines, whose padding is there already.

    Args:
        buffer: the lines `[phases, size]`.
        line: how they are laid out.
        window: how the window walks over the image.
        lanes: elements in a vector.
        read: `read(row, column, width)`, elements of a row of the image.
    """

    def store(first: int, r: Index, c: Index, row: Index, count: int, width: int) -> None:
        whole = read(row, c * window.stride[1], count * width)
        for way, part in enumerate(deinterleave(whole, count, width)):
            T.buffer_store(buffer, part, [first + way, ramp(line.at(r, c), width)])

    _each_phase_block(window, lanes, store)


def unstage(buffer: tirx.Buffer, pitch: int, window: Window, lanes: int, write: Write) -> None:
    """Emits `write(row, column, width, value)` for an image from its phases.

    Args:
        buffer: the phases `[phases, size]`, as results.
        pitch: elements from one of their rows to the next one.
        window: how the window walks over the image.
        lanes: elements in a vector.
        write: stores elements of a row of the image.
    """

    def store(first: int, r: Index, c: Index, row: Index, count: int, width: int) -> None:
        parts = [buffer[first + way, ramp(r * pitch + c, width)] for way in range(count)]
        write(row, c * window.stride[1], count * width, interleave(parts, width))

    _each_phase_block(window, lanes, store)


def _each_phase_block(
    window: Window, lanes: int, emit: Callable[[int, Index, Index, Index, int, int], None]
) -> None:
    """Emits `emit(first, r, c, row, count, width)` for blocks of an image.

    A block is elements `c` to `c + width` of row `r` of `count` phases from `first` on, which
    interleaved are elements of one row of the image, from column `c * stride` on.
    """
    (height, columns), (down, right) = window.image, window.stride
    whole, rest = divmod(columns, right)

    def blocks(phase: int, r: Index, row: Index) -> None:
        first = phase * right
        each_block(whole, lanes, lambda c, width: emit(first, r, c, row, right, width))
        if rest:
            emit(first, r, whole, row, rest, 1)

    for phase in range(min(down, height)):
        with T.serial(0, -(-(height - phase) // down)) as r:
            blocks(phase, r, r * down + phase)


def plane_kernel(
    count: int,
    arguments: dict[str, tuple[tuple[int, ...], str]],
    body: Callable[..., None],
    results: int = 1,
    *,
    is_small: bool = False,
) -> tirx.PrimFunc:
    """A kernel that runs over planes in parallel.

    Args:
        count: of planes.
        arguments: shape and dtype of each, the results last.
        body: emits the work for one plane from its number and the buffers.
        results: their number.
        is_small: whether one thread does it in less time than it takes to tell the others.
    """
    loop = T.serial if is_small else T.parallel
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_attr({PATTERN: OPAQUE, IS_SCHEDULED: True, "tirx.noalias": True})
        buffers = [
            T.arg(name, T.Buffer(shape, dtype)) for name, (shape, dtype) in arguments.items()
        ]
        with loop(0, count) as plane, T.sblock("plane"):
            number = T.axis.spatial(count, plane)
            T.reads(*map(_whole, buffers[:-results]))
            T.writes(*map(_whole, buffers[-results:]))
            body(number, *buffers)
    return builder.get()


def pair(values: Sequence) -> Pair:
    """The first two of an attribute's numbers, those for rows and columns."""
    first, second = (int(value) for value in list(values)[:2])
    return first, second


def _whole(buffer: tirx.Buffer) -> tirx.BufferRegion:
    return buffer[tuple(slice(0, size) for size in buffer.shape)]
