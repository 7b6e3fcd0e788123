"""Copies of images with zeros around them, in which every tap is a plain shift.

See `backends/kernels/convolution/grid.py`. What is copied at once is a block: some rows of some
images.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, rounded
from odtc.backends.kernels.convolution.grid import Staged, Walk

Read = Callable[..., ir.Expr]


@dataclass(frozen=True)
class StagedBlock:
    """The part of a batch that is staged at once: some rows of some images.

    Attributes:
        images: number of images.
        rows: results along the first axis.
        staged_rows: positions along the first axis of each image.
        inner: positions of each of those.
    """

    images: int
    rows: int
    staged_rows: int
    inner: int

    @property
    def positions(self) -> int:
        """Results and the positions between them."""
        return ((self.images - 1) * self.staged_rows + self.rows) * self.inner


def strides_of(axes: Sequence[Staged]) -> list[int]:
    """Positions from one step along each axis to the next."""
    return [math.prod(axis.span for axis in axes[d + 1 :]) for d in range(len(axes))]


def shift_of(
    walk: Sequence[Walk], strides: Sequence[int], taps: Sequence[ir.Expr]
) -> ir.Expr | int:
    """Positions from a result to what it reads under a tap."""
    return sum(w.shift(t) * s for w, t, s in zip(walk, taps, strides, strict=True))


def phase_at(
    walk: Sequence[Walk], phases: Sequence[Sequence[int]], taps: Sequence[ir.Expr]
) -> list[ir.Expr]:
    """Where the phases of a tap are staged."""
    return [
        index(0) if len(used) == 1 else w.phase(t)
        for w, used, t in zip(walk, phases, taps, strict=True)
    ]


def phases_of(read: set[int]) -> list[int]:
    """Phases to stage: the only one that is read, or all up to the last one that is."""
    return list(read) if len(read) == 1 else list(range(max(read, default=0) + 1))


def reach_of(walk: Sequence[Walk], strides: Sequence[int]) -> int:
    """The farthest that a tap reads from a result's position."""
    return sum(each.reach * stride for each, stride in zip(walk, strides, strict=True))


def stage_block(
    stage: tirx.Buffer,
    image: Read,
    axes: Sequence[Staged],
    phases: Sequence[Sequence[int]],
    start: tuple[ir.Expr, ir.Expr],
    block: StagedBlock,
    outer: Sequence[ir.Expr] = (),
) -> None:
    """Emits the copy of a block.

    Args:
        stage: [*outer, phases of each axis, channels, positions], of what the product multiplies.
        image: `(n, channel, *at)` to an element.
        axes: the image's.
        phases: that are staged, by axis.
        start: first image, and first row of results.
        block: its size.
        outer: indices of the stage in front of the phases.
    """
    n, first = start
    channels, length = (int(size) for size in stage.shape[-2:])
    strides, last = strides_of(axes), axes[-1]
    earlier, middle = [len(each) for each in phases[:-1]], [axis.span for axis in axes[1:-1]]
    for (begin, end), places in itertools.groupby(
        range(len(phases[-1])), lambda place: last.inside(phases[-1][place])
    ):
        # Phases of the last axis with the same zeros around them.
        alike = list(places)
        loops = [*earlier, len(alike), channels, length // block.inner, *middle]
        with T.grid(*loops) as indices:
            c, row, *inner = indices[len(phases) :]
            place = [*indices[: len(earlier)], alike[0] + indices[len(earlier)]]
            phase = [each[0] + p for each, p in zip(phases, place, strict=True)]
            of, r = row // block.staged_rows, row % block.staged_rows
            source = [
                position * axis.step + phase[d] - axis.before
                for d, (axis, position) in enumerate(zip(axes, [first + r, *inner], strict=False))
            ]
            sizes = [axis.size for axis in axes[:-1]]
            tests = [each >= 0 for each in source]
            tests += [each < size for each, size in zip(source, sizes, strict=True)]
            base = row * block.inner + sum(
                (g * stride for g, stride in zip(inner, strides[1:-1], strict=True)), index(0)
            )

            def put(span: tuple[int, int], value: Callable[[ir.Expr], ir.Expr], at: list) -> None:
                if span[0] < span[1]:
                    with T.serial(span[1] - span[0]) as g:
                        taken = rounded(value(span[0] + g), str(stage.dtype))
                        T.buffer_store(stage, taken, [*at[:-1], at[-1] + span[0] + g])

            def element(
                g: ir.Expr, at: tuple = (n + of, c, *source), shift: ir.Expr = phase[-1]
            ) -> ir.Expr:
                return image(*at, g * last.step + shift - last.before)

            at = [*outer, *place, c, base]
            with T.If(tirx.all(of < block.images, *tests)):
                with T.Then():
                    put((0, begin), _zero, at)
                    put((begin, end), element, at)
                    put((end, last.span), _zero, at)
                with T.Else():
                    put((0, last.span), _zero, at)


def _zero(_: ir.Expr) -> ir.Expr:
    return tirx.const(0.0, "float32")
