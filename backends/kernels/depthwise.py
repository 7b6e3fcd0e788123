"""Depthwise convolutions and their two gradients, plane by plane.

Each channel is convolved by itself, so there is no matrix product to map it to, and little more to
compute than to read and write: every plane is read once, and its taps are shifts of the staged
plane (`planes.py`). A channel `c` may have several filters; its outputs `o` follow each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels import planes
from odtc.backends.kernels.normalised import Normal, read_operands
from odtc.backends.kernels.places import Readable, load
from odtc.backends.kernels.planes import Line, Tap, Window
from odtc.backends.kernels.vectors import Index, each_vector, ramp, splat

# Sums of one pass over a plane: they stay in vector registers, of which some CPUs have 16.
_SUMS = 12


@dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution, whichever of its three products is computed.

    Attributes:
        batch: samples.
        channels: of the image.
        filters: of each channel.
        window: how the window walks over a plane of the image.
    """

    batch: int
    channels: int
    filters: int
    window: Window

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the image `x`, the weights `w` and the output `y`."""
        results = self.channels * self.filters
        return {
            "x": (self.batch, self.channels, *self.window.image),
            "w": (results, 1, *self.window.kernel),
            "y": (self.batch, results, *self.window.out),
        }

    def arguments(self, **dtypes: str) -> dict[str, tuple[tuple[int, ...], str]]:
        """Arguments of a kernel by name, as `plane_kernel` takes them."""
        return {name: (self.shapes[name], dtype) for name, dtype in dtypes.items()}

    def kernel(
        self,
        count: int,
        body: Callable[[ir.Expr, Readable, tirx.Buffer, tirx.Buffer], None],
        normal: Normal | None,
        **dtypes: str,
    ) -> tirx.PrimFunc:
        """A kernel over planes, of which the first argument is the image.

        Args:
            count: of planes.
            body: emits the work for one plane, from its number and the three tensors.
            normal: what becomes of the image as it is read, if anything does.
            dtypes: of the arguments, by name.
        """
        arguments = self.arguments(**dtypes)
        if normal:
            arguments = {**normal.arguments(*arguments.pop("x")), **arguments}

        def read(plane: ir.Expr, *tensors: tirx.Buffer) -> None:
            body(plane, *read_operands(normal, tensors))

        return planes.plane_kernel(count, arguments, read)


def forward(
    conv: Depthwise, lanes: int, x_dtype: str, w_dtype: str, normal: Normal | None = None
) -> tirx.PrimFunc:
    """A kernel `(x, w, y)`.

    `y[n, o, p] = sum over i of w[o, i] * x[n, c, p * stride + i * dilation - pad]`.
    """
    window, line = conv.window, planes.input_line(conv.window, lanes)

    def body(plane: ir.Expr, x: Readable, w: tirx.Buffer, y: tirx.Buffer) -> None:
        n, c = plane // conv.channels, plane % conv.channels
        staged = _zeros(window.phases, line.size, lanes)
        result = T.sblock_alloc_buffer((line.vectors * lanes,), "float32")
        planes.stage(staged, line, window, lanes, _reader(x, n, c))
        with T.serial(0, conv.filters) as filter_:
            o = c * conv.filters + filter_

            def convolve(at: Index) -> None:
                total = _zero(lanes)
                for tap in window.taps():
                    read = staged[tap.phase, ramp(line.shifted(tap.shift) + at, lanes)]
                    total = total + _weight(w, o, tap.at, lanes) * read
                T.buffer_store(result, total, [ramp(at, lanes)])

            def write(row: Index, column: Index, width: int) -> None:
                value = result[ramp(row * line.pitch + column, width)]
                T.buffer_store(y, value, [n, o, row, ramp(column, width)])

            each_vector(line.vectors, lanes, convolve)
            planes.copy_rows(window.out, lanes, write)

    count = conv.batch * conv.channels
    return conv.kernel(count, body, normal, x=x_dtype, w=w_dtype, y="float32")


def data_gradient(conv: Depthwise, lanes: int, y_dtype: str, w_dtype: str) -> tirx.PrimFunc:
    """A kernel `(dy, w, dx)`.

    `dx[n, c, q] = sum over o and i of w[o, i] * dy[n, o, (q + pad - i * dilation) / stride]`, where
    the division has no rest.
    """
    window, line = conv.window, planes.output_line(conv.window, lanes)

    def body(plane: ir.Expr, dy: tirx.Buffer, w: tirx.Buffer, dx: tirx.Buffer) -> None:
        n, c = plane // conv.channels, plane % conv.channels
        staged = _zeros(1, line.size, lanes)
        total = _zeros(window.phases, line.vectors * lanes, lanes)

        def convolve(o: ir.Expr, phase: int, at: Index) -> None:
            here = ramp(at, lanes)
            result = total[phase, here] if conv.filters > 1 else _zero(lanes)
            for tap in window.taps():
                if tap.phase == phase:
                    read = staged[0, ramp(line.shifted_back(tap.shift) + at, lanes)]
                    result = result + _weight(w, o, tap.at, lanes) * read
            T.buffer_store(total, result, [phase, here])

        def write(row: Index, column: Index, width: int, value: ir.Expr) -> None:
            T.buffer_store(dx, value, [n, c, row, ramp(column, width)])

        with T.serial(0, conv.filters) as filter_:
            o = c * conv.filters + filter_
            _stage_output(staged, line, window, lanes, _reader(dy, n, o))
            for phase in range(window.phases):
                each_vector(line.vectors, lanes, partial(convolve, o, phase))
        planes.unstage(total, line.pitch, window, lanes, write)

    arguments = conv.arguments(y=y_dtype, w=w_dtype, x="float32")
    return planes.plane_kernel(conv.batch * conv.channels, arguments, body)


def weight_gradient(
    conv: Depthwise, lanes: int, x_dtype: str, y_dtype: str, normal: Normal | None = None
) -> tirx.PrimFunc:
    """A kernel `(x, dy, dw)`.

    `dw[o, i] = sum over n and p of dy[n, o, p] * x[n, c, p * stride + i * dilation - pad]`. Each
    position's sum is a vector until all samples are added up.
    """
    window, line = conv.window, planes.input_line(conv.window, lanes)
    taps = list(enumerate(window.taps()))
    passes = [taps[start : start + _SUMS] for start in range(0, len(taps), _SUMS)]
    flat = Line(line.pitch, 0, line.vectors * lanes, line.vectors)

    def body(o: ir.Expr, x: Readable, dy: tirx.Buffer, dw: tirx.Buffer) -> None:
        image = _zeros(window.phases, line.size, lanes)
        gradient = _zeros(1, flat.size, lanes)
        sums = _zeros(len(taps), lanes, lanes)
        register = T.sblock_alloc_buffer((_SUMS * lanes,), "float32", scope="local")
        whole = ramp(0, lanes)

        def add(group: list[tuple[int, Tap]], at: Index) -> None:
            dy_vector = gradient[0, ramp(at, lanes)]
            for slot, (_, tap) in enumerate(group):
                held = ramp(slot * lanes, lanes)
                read = image[tap.phase, ramp(line.shifted(tap.shift) + at, lanes)]
                T.buffer_store(register, register[held] + dy_vector * read, [held])

        with T.serial(0, conv.batch) as n:
            planes.stage(image, line, window, lanes, _reader(x, n, o // conv.filters))
            _stage_output(gradient, flat, window, lanes, _reader(dy, n, o))
            for group in passes:
                for slot, (number, _) in enumerate(group):
                    T.buffer_store(register, sums[number, whole], [ramp(slot * lanes, lanes)])
                each_vector(line.vectors, lanes, partial(add, group))
                for slot, (number, _) in enumerate(group):
                    T.buffer_store(sums, register[ramp(slot * lanes, lanes)], [number, whole])
        for number, tap in taps:
            parts = [sums[number, lane] for lane in range(lanes)]
            T.buffer_store(dw, _pairwise(parts), [o, 0, *tap.at])

    count = conv.channels * conv.filters
    return conv.kernel(count, body, normal, x=x_dtype, y=y_dtype, w="float32")


def _zeros(lines: int, size: int, lanes: int) -> tirx.Buffer:
    buffer = T.sblock_alloc_buffer((lines, size), "float32")
    planes.fill(buffer, tirx.const(0.0, "float32"), lanes)
    return buffer


def _zero(lanes: int) -> ir.Expr:
    return splat(tirx.const(0.0, "float32"), lanes)


def _reader(tensor: Readable, n: ir.Expr, channel: ir.Expr) -> planes.Read:
    """Reads a plane of a tensor as float32, whatever it is stored in."""
    return lambda row, column, width: load(tensor, [n, channel, row, ramp(column, width)])


def _weight(w: tirx.Buffer, o: ir.Expr, at: planes.Pair, lanes: int) -> ir.Expr:
    return splat(w[o, 0, at[0], at[1]].astype("float32"), lanes)


def _stage_output(
    buffer: tirx.Buffer, line: Line, window: Window, lanes: int, read: planes.Read
) -> None:
    """Emits: what belongs to the window's steps into its line, whose padding is there already."""

    def store(row: Index, column: Index, width: int) -> None:
        T.buffer_store(buffer, read(row, column, width), [0, ramp(line.at(row, column), width)])

    planes.copy_rows(window.out, lanes, store)


def _pairwise(parts: list[ir.Expr]) -> ir.Expr:
    """The sum of numbers, half by half: its rounding grows with the logarithm of their count."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _pairwise(parts[:half]) + _pairwise(parts[half:])
