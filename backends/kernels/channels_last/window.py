"""Convolutions of any window, and the gradients of their data, of tensors with channels last.

A tile has neighbouring results of a row of the image as its rows, and channels of theirs as its
columns. Under a row of taps the channels that a result reads of all of them lie one after the
other, so that the inner loop runs through them. A task copies the weights of its columns into a
panel once, and takes images, or bands of their rows, one after the other; where there are zeros
around an image, each is copied with these.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import divisors, index, load, unflatten
from odtc.backends.kernels.common.transpose import copy_transposed
from odtc.backends.kernels.convolution.grid import ConvolutionAxis, Walk
from odtc.backends.kernels.product.columns import Columns
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.panels import Results, foresee_tile, store_tile
from odtc.backends.kernels.product.tile import Machine, Tile, accumulator, keep, multiply

# From a filter's channel, a column and a tap's place in the kernel to a weight.
Weight = Callable[[ir.Expr, ir.Expr, Sequence[int]], ir.Expr]


@dataclass(frozen=True)
class WindowAxis:
    """One axis: result `o` reads, under tap `t`, the position `o * step + first + t * gap`.

    Positions are counted from `before` zeros in front of the image.

    Attributes:
        size: of the image that is read.
        before: zeros in front of it; of those after there are as many as are read.
        step, first, gap: of positions.
        weights: places of the taps in the kernel, by rising positions.
        out: results.
        target: from a result to its place.
    """

    size: int
    before: int
    step: int
    first: int
    gap: int
    weights: tuple[int, ...]
    out: int
    target: Callable[[ir.Expr], ir.Expr]

    @property
    def taps(self) -> int:
        """Number of taps."""
        return len(self.weights)

    @property
    def run(self) -> int:
        """Taps in a row whose positions are neighbours: one, or all."""
        return self.taps if self.gap == 1 else 1

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.taps if self.run == 1 else 1

    def span(self, out: int) -> int:
        """Positions that so many results read."""
        return (out - 1) * self.step + self.first + max(self.taps - 1, 0) * self.gap + 1

    @property
    def is_inside(self) -> bool:
        """Whether all that is read lies in the image."""
        return self.before == 0 and self.span(self.out) <= self.size


def forward_line(axis: ConvolutionAxis) -> WindowAxis:
    """`y[o] = sum over t of x[o * stride + t * dilation - pad] * w[t]`."""
    taps = tuple(range(axis.kernel))
    return WindowAxis(
        axis.size, axis.pad, axis.stride, 0, axis.dilation, taps, axis.out, lambda o: o
    )


def backward_line(walk: Walk) -> WindowAxis:
    """A part of the gradient's data, as `ConvolutionAxis.backward` has it."""
    found = sorted((int(walk.shift(tap)), int(walk.weight(tap))) for tap in range(walk.taps))
    shifts, weights = [shift for shift, _ in found], tuple(weight for _, weight in found)
    gap = shifts[1] - shifts[0] if len(shifts) > 1 else 1
    first = shifts[0] if shifts else 0
    staged = walk.staged
    return WindowAxis(staged.size, staged.before, 1, first, gap, weights, walk.out, walk.target)


def forward(product: Product, axes: Sequence[ConvolutionAxis], machine: Machine) -> None:
    """Emits `y[n, o, m] = sum over t, c of x[n, o * stride + t * gap - pad, c] * w[m, c, t]`."""
    (x, w), lines = product.operands, [forward_line(axis) for axis in axes]
    kernel = [axis.kernel for axis in axes]
    channels, taps = int(w.shape[1]), kernel[0] * kernel[1]

    def pack(panel: tirx.Buffer, at: ir.Expr, live: int, tile: Tile) -> None:
        """A filter's weights lie one after the other: channels, and taps of each."""

        def place(k: ir.Expr, j: ir.Expr) -> list[ir.Expr]:
            row, column = unflatten(k % taps, kernel)
            return [row, column * channels + k // taps, j]

        copy_transposed(
            (live, channels * taps),
            lambda j, k: load(w, [at + j, index(0), index(0), k]),
            panel,
            place,
            tile.lanes,
        )

    _product(product, x, lines, (int(w.shape[0]), pack), machine)


def data_gradient(product: Product, axes: Sequence[ConvolutionAxis], machine: Machine) -> None:
    """Emits the gradient of the data; each remainder of a stride is a product of its own."""
    dy, w = product.operands
    filters = int(w.shape[0])
    for walks in itertools.product(*(axis.backward() for axis in axes)):
        lines = [backward_line(walk) for walk in walks]
        places = [(a, b) for a in enumerate(lines[0].weights) for b in enumerate(lines[1].weights)]

        def pack(
            panel: tirx.Buffer, at: ir.Expr, live: int, _: Tile, places: list = places
        ) -> None:
            with T.grid(filters, live) as (m, c):
                for (row, i), (column, j) in places:
                    value = load(w, [m, at + c, index(i), index(j)])
                    T.buffer_store(panel, value, [index(row), column * filters + m, c])

        _product(product, dy, lines, (int(w.shape[1]), pack), machine)


def _product(
    product: Product,
    source: tirx.Buffer,
    lines: Sequence[WindowAxis],
    weights: tuple[int, Callable[[tirx.Buffer, ir.Expr, int, Tile], None]],
    machine: Machine,
) -> None:
    """Emits one product: the results of two lines.

    Args:
        product: whose results are stored.
        source: the image that is read, with its channels last.
        lines: of rows and columns.
        weights: channels of a result; what packs those of a tile, from the first on.
        machine: the CPU.
    """
    (rows, across), (channels, pack) = lines, weights
    batch, *_, depth = (int(size) for size in source.shape)
    tile, columns = machine.tile(across.out, channels), Columns(1, channels)
    panels, live = -(-channels // tile.columns), min(channels, tile.columns)
    stage = _Stage(source, rows, across, machine)
    units = batch * stage.bands
    splits = _split(units, -(-machine.tasks // panels))
    with T.parallel(panels * splits) as task:
        number, split = unflatten(task, (panels, splits))
        # The last panel reaches back over results that are there already.
        at = T.Bind(tirx.min(number * tile.columns, index(max(channels - tile.columns, 0))))
        panel = T.sblock_alloc_buffer(
            (max(rows.taps, 1), max(across.taps, 1) * depth, tile.columns), "float32"
        )
        if live < tile.columns:
            with T.grid(*(int(size) for size in panel.shape)) as place:
                T.buffer_store(panel, tirx.const(0.0, "float32"), list(place))
        pack(panel, at, live, tile)
        staged = stage.buffer()
        registers = accumulator(tile)
        scratch = T.sblock_alloc_buffer((tile.rows, tile.columns), "float32")
        with T.serial(units // splits) as unit:
            n, band = map(T.bind, unflatten(split * (units // splits) + unit, (batch, stage.bands)))
            # The last band and the last tile reach back, too.
            top = T.bind(tirx.min(band * stage.rows, index(rows.out - stage.rows)))
            stage.fill(staged, n, top)
            with T.grid(stage.rows, -(-across.out // tile.rows)) as (r, t):
                o = T.bind(tirx.min(t * tile.rows, index(across.out - tile.rows)))
                row = T.bind(rows.target(top + r))
                results = Results(
                    lambda _, p, c, value: product.store([n, row, across.target(p), c], value),
                    lambda _, p, c: product.ahead([n, row, across.target(p), c]),
                )
                foresee_tile(tile, columns, (n, o, at), results)
                multiply(
                    registers,
                    tile,
                    [rows.taps, across.runs, across.run * depth],
                    lambda i, a, b, c: stage.read(staged, (n, top, r), o + i, (a, b, c)),
                    lambda v, a, b, c: tirx.BufferLoad(
                        panel, [a, b * across.run * depth + c, tile.span(v)]
                    ),
                )
                keep(registers, scratch, tile, 0)
                store_tile(tile, columns, scratch, (n, o, at), results)


def _split(units: int, wanted: int) -> int:
    """Parts of so many units: the fewest equal ones that are enough, if there are."""
    return next((each for each in divisors(units) if each >= wanted), units)


class _Stage:
    """The image as a task reads it: where it lies, or some rows of it at a time with zeros.

    Attributes:
        rows: of results that are computed at a time.
        bands: of them in an image.
    """

    def __init__(
        self, source: tirx.Buffer, rows: WindowAxis, across: WindowAxis, machine: Machine
    ) -> None:
        self._source, self._rows, self._across = source, rows, across
        self._depth = int(source.shape[3])
        self._is_copied = not (rows.is_inside and across.is_inside)
        self._pitch = across.span(across.out) * self._depth
        room = max(machine.near // (8 * self._pitch), rows.span(1)) if self._is_copied else rows.out
        most = max((room - rows.span(1)) // rows.step + 1, 1)
        self.bands = -(-rows.out // most)
        self.rows = -(-rows.out // self.bands)

    def buffer(self) -> tirx.Buffer:
        """The memory of the copy."""
        shape = (self._rows.span(self.rows), self._pitch) if self._is_copied else (1, 1)
        return T.sblock_alloc_buffer(shape, "float32")

    def fill(self, staged: tirx.Buffer, n: ir.Expr, top: ir.Expr) -> None:
        """Emits the copy of the rows that results from `top` on read."""
        if not self._is_copied:
            return
        rows, across, zero = self._rows, self._across, tirx.const(0.0, "float32")
        begin = min(max(across.before, 0), across.span(across.out))
        # Of the image, elements `skip` and those after it are read, as far as there are any.
        skip = max(-across.before, 0)
        count = max(min(across.size - skip, across.span(across.out) - begin), 0)
        depth, pitch = self._depth, self._pitch
        with T.serial(rows.span(self.rows)) as g:
            row = T.bind(top * rows.step + g - rows.before)

            def clear(start: int, length: int, g: ir.Expr = g) -> None:
                with T.serial(length) as j:
                    T.buffer_store(staged, zero, [g, start + j])

            with T.If(tirx.all(row >= 0, row < rows.size)):
                with T.Then():
                    clear(0, begin * depth)
                    with T.serial(count * depth) as j:
                        value = load(self._source, [n, row, index(0), skip * depth + j])
                        T.buffer_store(staged, value, [g, begin * depth + j])
                    clear((begin + count) * depth, pitch - (begin + count) * depth)
                with T.Else():
                    clear(0, pitch)

    def read(
        self,
        staged: tirx.Buffer,
        at: tuple[ir.Expr, ir.Expr, ir.Expr],
        o: ir.Expr,
        tap: tuple[ir.Expr, ir.Expr, ir.Expr],
    ) -> ir.Expr:
        """An element that a result reads.

        Args:
            staged: the copy.
            at: the image, the first row of results that it has, and the row among these.
            o: the result in its row.
            tap: the row of taps, the run in it, and the element of that.
        """
        (n, top, r), (tap_row, run, element) = at, tap
        rows, across = self._rows, self._across
        row = r * rows.step + rows.first + tap_row * rows.gap
        column = (o * across.step + across.first + run * across.gap) * self._depth + element
        if self._is_copied:
            return tirx.BufferLoad(staged, [row, column])
        return load(self._source, [n, top * rows.step + row, index(0), column])
