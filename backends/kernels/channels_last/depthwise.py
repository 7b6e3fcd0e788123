"""Depthwise convolutions, and their gradients, of tensors whose channels are last.

Vectors run along channels, so that a tap is a vector of the image times a vector of weights, and
whether it is inside of the image is asked once for all channels of a pixel. Each channel has one
filter.
"""

from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.channels_last.channel_blocks import Channels
from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.pool.planes import Pair, Window, plane_kernel
from odtc.backends.kernels.product.tile import TASKS

Arguments = dict[str, tuple[tuple[int, ...], str]]
# From a window, a pixel of the result and a tap to the pixel that is read; whether there is one.
Place = Callable[[Window, Sequence[ir.Expr], Pair], tuple[list[ir.Expr], ir.Expr]]

# Vectors of channels for each of which all taps have sums in registers.
_OF_SUMS = 2


def forward(batch: int, channels: int, window: Window, lanes: int, *dtypes: str) -> tirx.PrimFunc:
    """A kernel `(x, w, y)`; `x` and `y` have channels last, `w` is [channels, 1, *taps]."""
    arguments = _arguments(batch, channels, window, x=dtypes[0], w=dtypes[1], y="float32")
    return _sums_oftaps_of(arguments, window, lanes, read_at)


def data_gradient(
    batch: int, channels: int, window: Window, lanes: int, *dtypes: str
) -> tirx.PrimFunc:
    """A kernel `(dy, w, dx)`."""
    arguments = _arguments(batch, channels, window, y=dtypes[0], w=dtypes[1], x="float32")
    return _sums_oftaps_of(arguments, window, lanes, read_by)


def _sums_oftaps_of(
    arguments: Arguments, window: Window, lanes: int, place: Place
) -> tirx.PrimFunc:
    """A kernel of a tensor, the weights and a result whose pixels each read some of the tensor's.

    A task has some rows of an image, and a block of channels.
    """
    (batch, rows, columns, channels), _ = list(arguments.values())[-1]
    of, taps = Channels(channels, lanes), taps_of(window)
    bands = min(rows, -(-TASKS // (batch * of.blocks)))
    each = -(-rows // bands)

    def body(task: ir.Expr, read: tirx.Buffer, w: tirx.Buffer, result: tirx.Buffer) -> None:
        n, band, block = map(T.bind, unflatten(task, (batch, bands, of.blocks)))
        first = of.first(block)
        weights = T.sblock_alloc_buffer((len(taps), of.vectors * of.width), "float32")
        with T.serial(of.vectors * of.width) as c:
            for number, tap in enumerate(taps):
                value = tirx.BufferLoad(w, [first + c, index(0), *map(index, tap)])
                T.buffer_store(weights, value.astype("float32"), [index(number), c])
        # The last band reaches back.
        start = T.bind(tirx.min(band * each, index(rows - each)))
        with T.grid(each, columns) as (number_of_row, column):
            row, total = T.bind(start + number_of_row), of.registers()
            for number, tap in enumerate(taps):
                at, inside = place(window, (row, column), tap)
                with T.If(inside), T.Then():
                    for v in range(of.vectors):
                        weight = of.load(weights, [index(number), of.at(index(0), v)])
                        total.add([v], of.load(read, [n, *at, of.at(first, v)]) * weight)
            for v in range(of.vectors):
                T.buffer_store(result, total.get([v]), [n, row, column, of.at(first, v)])

    return plane_kernel(batch * bands * of.blocks, arguments, body)


def weight_gradient(
    batch: int, channels: int, window: Window, lanes: int, *dtypes: str
) -> tirx.PrimFunc:
    """A kernel `(x, dy, dw)`."""
    of, taps = Channels(channels, lanes, _OF_SUMS), taps_of(window)

    def body(block: ir.Expr, x: tirx.Buffer, dy: tirx.Buffer, dw: tirx.Buffer) -> None:
        first, total = of.first(block), of.registers(len(taps))
        with T.grid(batch, *window.out) as (n, row, column):
            adjoints = [
                T.bind(of.load(dy, [n, row, column, of.at(first, v)])) for v in range(of.vectors)
            ]
            for number, tap in enumerate(taps):
                at, inside = read_at(window, (row, column), tap)
                with T.If(inside), T.Then():
                    for v, adjoint in enumerate(adjoints):
                        read = of.load(x, [n, *at, of.at(first, v)])
                        total.add([number, v], read * adjoint)
        found = T.sblock_alloc_buffer((of.width,), "float32")
        for number, tap in enumerate(taps):
            for v in range(of.vectors):
                T.buffer_store(found, total.get([number, v]), [of.at(index(0), 0)])
                with T.serial(of.width) as lane:
                    channel = first + v * of.width + lane
                    at = [channel, index(0), *map(index, tap)]
                    T.buffer_store(dw, tirx.BufferLoad(found, [lane]), at)

    arguments = _arguments(batch, channels, window, x=dtypes[0], y=dtypes[1], w="float32")
    return plane_kernel(of.blocks, arguments, body)


def _arguments(batch: int, channels: int, window: Window, **dtypes: str) -> Arguments:
    shapes = {
        "x": (batch, *window.image, channels),
        "w": (channels, 1, *window.kernel),
        "y": (batch, *window.out, channels),
    }
    return {name: (shapes[name], dtype) for name, dtype in dtypes.items()}


def taps_of(window: Window) -> list[Pair]:
    """The taps of a window, row by row."""
    return [(i, j) for i in range(window.kernel[0]) for j in range(window.kernel[1])]


def read_at(window: Window, out: Sequence[ir.Expr], tap: Pair) -> tuple[list[ir.Expr], ir.Expr]:
    """The pixel of the image that an output reads with a tap, and whether it is inside."""
    steps = zip(out, tap, window.stride, window.dilation, window.pad, strict=True)
    at = [o * stride + t * dilation - pad for o, t, stride, dilation, pad in steps]
    return at, tirx.all(*_inside(at, window.image))


def read_by(window: Window, pixel: Sequence[ir.Expr], tap: Pair) -> tuple[list[ir.Expr], ir.Expr]:
    """The output that reads a pixel with a tap, and whether there is one."""
    steps = zip(pixel, tap, window.dilation, window.pad, strict=True)
    far = [x + pad - t * dilation for x, t, dilation, pad in steps]
    hits = [
        tirx.EQ(tirx.floormod(each, stride), index(0))
        for each, stride in zip(far, window.stride, strict=True)
        if stride > 1
    ]
    at = [tirx.floordiv(each, stride) for each, stride in zip(far, window.stride, strict=True)]
    return at, tirx.all(*_inside(at, window.out), *hits)


def _inside(at: Sequence[ir.Expr], sizes: Pair) -> list[ir.Expr]:
    return [test for x, size in zip(at, sizes, strict=True) for test in (x >= 0, x < size)]
