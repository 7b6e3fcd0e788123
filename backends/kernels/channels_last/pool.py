"""Max and average pooling, and their gradients, of tensors whose channels are last.

They compute what `max_pool2d.py` and `avg_pool2d.py` say. Vectors run along channels, so that a tap
is a vector of the image, and whether it is inside is asked once for all channels of a pixel. A task
has some rows of an image, and all of their channels.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.channels_last.channel_blocks import Channels
from odtc.backends.kernels.channels_last.depthwise import read_at, read_by, taps_of
from odtc.backends.kernels.common.places import index, unflatten
from odtc.backends.kernels.common.vectors import splat, vector_type
from odtc.backends.kernels.pool.planes import Pair, Window, plane_kernel
from odtc.backends.kernels.product.tile import TASKS
from odtc.dialect.images.max_pool import chosen_dtype

_INFINITY = 0x7F800000

# Emits the result for some channels of a pixel, from its index.
Body = Callable[[ir.Expr, ir.Expr, ir.Expr, ir.Expr], None]


def max_pool(sizes: Pair, window: Window, lanes: int, *, rectifies: bool = False) -> tirx.PrimFunc:
    """A kernel `(x, y, chosen)`: of each window the largest element, and its number.

    Args:
        sizes: samples and channels.
        window: how the window walks over an image.
        lanes: elements of a vector.
        rectifies: whether zero is the least result.
    """
    of, taps = Channels(sizes[1], lanes, 1), taps_of(window)
    dtype = chosen_dtype(len(taps))
    lowest = of.number(0.0 if rectifies else -math.inf)

    def body(task: ir.Expr, x: tirx.Buffer, y: tirx.Buffer, chosen: tirx.Buffer) -> None:
        def pixel(n: ir.Expr, row: ir.Expr, column: ir.Expr, at: ir.Expr) -> None:
            best = T.sblock_alloc_buffer((of.width,), "float32", scope="local")
            number = T.sblock_alloc_buffer((of.width,), "int32", scope="local")
            every = of.at(index(0), 0)
            start = index(len(taps)) if rectifies else _first_inside(window, (row, column))
            T.buffer_store(best, lowest, [every])
            T.buffer_store(number, splat(start, of.width), [every])
            for tap_number, tap in enumerate(taps):
                place, inside = read_at(window, (row, column), tap)
                with T.If(inside), T.Then():
                    value = T.bind(of.load(x, [n, *place, at]))
                    hit = _wins(value, tirx.BufferLoad(best, [every]), of.width)
                    told = splat(index(tap_number), of.width)
                    T.buffer_store(
                        number, tirx.Select(hit, told, tirx.BufferLoad(number, [every])), [every]
                    )
                    T.buffer_store(
                        best, tirx.Select(hit, value, tirx.BufferLoad(best, [every])), [every]
                    )
            T.buffer_store(y, tirx.BufferLoad(best, [every]), [n, row, column, at])
            small = tirx.BufferLoad(number, [every]).astype(vector_type(dtype, of.width))
            T.buffer_store(chosen, small, [n, row, column, at])

        _each_pixel(task, (sizes[0], *window.out), of, pixel)

    out = (sizes[0], *window.out, sizes[1])
    arguments = {"x": (_image(sizes, window), "float32"), "y": (out, "float32")}
    return plane_kernel(
        _tasks((sizes[0], *window.out)), arguments | {"chosen": (out, dtype)}, body, results=2
    )


def max_pool_gradient(sizes: Pair, window: Window, lanes: int) -> tirx.PrimFunc:
    """A kernel `(dy, chosen, dx)`."""
    dtype = chosen_dtype(math.prod(window.kernel))

    def term(
        of: Channels, dy: tirx.Buffer, number: int, at: list[ir.Expr], chosen: tirx.Buffer
    ) -> ir.Expr:
        told = tirx.BufferLoad(chosen, at).astype(vector_type("int32", of.width))
        hit = tirx.EQ(told, splat(index(number), of.width))
        return tirx.Select(hit, of.load(dy, at), of.number(0.0))

    return _gradient(sizes, window, lanes, term, {"chosen": dtype})


def avg_pool(
    sizes: Pair, window: Window, lanes: int, dtype: str = "float32", with_padding: bool = False
) -> tirx.PrimFunc:
    """A kernel `(x, y)`: the mean of each window; arguments as in `avg_pool2d.py`."""
    of = Channels(sizes[1], lanes, 1)

    def body(task: ir.Expr, x: tirx.Buffer, y: tirx.Buffer) -> None:
        def pixel(n: ir.Expr, row: ir.Expr, column: ir.Expr, at: ir.Expr) -> None:
            total = of.registers()
            for tap in taps_of(window):
                place, inside = read_at(window, (row, column), tap)
                with T.If(inside), T.Then():
                    total.add([0], of.load(x, [n, *place, at]))
            count = _elements(window, with_padding, (row, column))
            T.buffer_store(y, total.get([0]) / splat(count, of.width), [n, row, column, at])

        _each_pixel(task, (sizes[0], *window.out), of, pixel)

    out = (sizes[0], *window.out, sizes[1])
    arguments = {"x": (_image(sizes, window), dtype), "y": (out, "float32")}
    return plane_kernel(_tasks((sizes[0], *window.out)), arguments, body)


def avg_pool_gradient(
    sizes: Pair, window: Window, lanes: int, dtype: str = "float32", with_padding: bool = False
) -> tirx.PrimFunc:
    """A kernel `(dy, dx)`: to each element its share of the windows that it is in."""

    def term(of: Channels, dy: tirx.Buffer, _: int, at: list[ir.Expr]) -> ir.Expr:
        count = _elements(window, with_padding, (at[1], at[2]))
        return of.load(dy, at) / splat(count, of.width)

    return _gradient(sizes, window, lanes, term, {}, dtype)


def _gradient(
    sizes: Pair,
    window: Window,
    lanes: int,
    term: Callable[..., ir.Expr],
    more: dict[str, str],
    dtype: str = "float32",
) -> tirx.PrimFunc:
    """A kernel whose result sums up, for each pixel, a term of each window that it is in.

    Args:
        sizes: samples and channels.
        window: how the window walks over the result.
        lanes: elements of a vector.
        term: from channels, `dy`, the number of the tap and the index of the window in `dy`.
        more: dtypes of tensors of the shape of `dy`, which it is given, too.
        dtype: of `dy`.
    """
    of = Channels(sizes[1], lanes, 1)

    def body(task: ir.Expr, dy: tirx.Buffer, *rest: tirx.Buffer) -> None:
        *given, dx = rest

        def pixel(n: ir.Expr, row: ir.Expr, column: ir.Expr, at: ir.Expr) -> None:
            total = of.registers()
            for number, tap in enumerate(taps_of(window)):
                place, inside = read_by(window, (row, column), tap)
                with T.If(inside), T.Then():
                    total.add([0], term(of, dy, number, [n, *place, at], *given))
            T.buffer_store(dx, total.get([0]), [n, row, column, at])

        _each_pixel(task, (sizes[0], *window.image), of, pixel)

    out = (sizes[0], *window.out, sizes[1])
    arguments = {
        "dy": (out, dtype),
        **{name: (out, kind) for name, kind in more.items()},
        "dx": (_image(sizes, window), "float32"),
    }
    return plane_kernel(_tasks((sizes[0], *window.image)), arguments, body)


def _image(sizes: Pair, window: Window) -> tuple[int, ...]:
    return (sizes[0], *window.image, sizes[1])


def _bands(pixels: tuple[int, int, int]) -> int:
    """Parts of the rows of an image: enough for all cores."""
    batch, rows, _ = pixels
    return min(rows, -(-TASKS // batch))


def _tasks(pixels: tuple[int, int, int]) -> int:
    return pixels[0] * _bands(pixels)


def _each_pixel(task: ir.Expr, pixels: tuple[int, int, int], of: Channels, emit: Body) -> None:
    """Emits a body for each pixel of a task and each of its vectors; the last band reaches back."""
    batch, rows, columns = pixels
    bands = _bands(pixels)
    each = -(-rows // bands)
    n, band = map(T.bind, unflatten(task, (batch, bands)))
    start = T.bind(tirx.min(band * each, index(rows - each)))
    with T.grid(each, columns, of.blocks) as (step, column, block):
        row, first = T.bind(start + step), of.first(block)
        emit(n, row, column, of.at(first, 0))


def _wins(value: ir.Expr, best: ir.Expr, width: int) -> ir.Expr:
    """Where a value is larger than the best one so far, or is not a number."""
    bits = tirx.reinterpret(vector_type("int32", width), value)
    size = bits & splat(index(0x7FFFFFFF), width)
    return tirx.Or(value > best, size > splat(index(_INFINITY), width))


def _first_inside(window: Window, out: Sequence[ir.Expr]) -> ir.Expr:
    """The number of the first element of a window that is no padding in front."""

    def first(axis: int) -> ir.Expr:
        gap = window.dilation[axis]
        outside = tirx.max(window.pad[axis] - out[axis] * window.stride[axis], index(0))
        return outside if gap == 1 else tirx.floordiv(outside + (gap - 1), gap)

    return first(0) * window.kernel[1] + first(1)


def _elements(window: Window, with_padding: bool, out: Sequence[ir.Expr]) -> ir.Expr:
    """How many elements a window, without dilation, takes the mean of."""
    if with_padding:
        return tirx.const(math.prod(window.kernel), "float32")

    def inside(axis: int) -> ir.Expr:
        first = out[axis] * window.stride[axis] - window.pad[axis]
        end = tirx.min(first + window.kernel[axis], index(window.image[axis]))
        return end - tirx.max(first, index(0))

    return (inside(0) * inside(1)).astype("float32")
