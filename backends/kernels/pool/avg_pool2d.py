"""2-D average pooling and its gradient, plane by plane.

TVM asks for each element of a window whether it lies in the image, and for each element of the
image which windows it is in. It also keeps the image for the gradient, which does not read it.
"""

import math
from collections.abc import Callable
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.channels_last import pool as pool_last
from odtc.backends.kernels.common.operand import shape_of, stored
from odtc.backends.kernels.common.vectors import Index, each_vector, ramp, splat, vector_type
from odtc.backends.kernels.pool import planes
from odtc.backends.kernels.pool.planes import Pair, Window
from odtc.core.ir.layouts import LAST, SECOND, permuted

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

AVERAGE, BACKWARD = "relax.nn.avg_pool2d", "relax.grad.avg_pool2d_backward"


def avg_pool2d_rules(lanes: int) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {name: partial(_lower, lanes=lanes) for name in (AVERAGE, BACKWARD)}


def avg_pool2d(
    sizes: Pair, window: Window, lanes: int, dtype: str = "float32", with_padding: bool = False
) -> tirx.PrimFunc:
    """A kernel `(x, y)`: the mean of each window.

    Args:
        sizes: samples and channels.
        window: how the window walks over a plane, without dilation.
        lanes: elements in a vector register.
        dtype: of `x`; `y` is float32.
        with_padding: whether padding counts as elements.
    """
    channels, line = sizes[1], planes.input_line(window, lanes)

    def body(p: ir.Expr, x: tirx.Buffer, y: tirx.Buffer) -> None:
        staged = T.sblock_alloc_buffer((window.phases, line.size), "float32")
        sums = T.sblock_alloc_buffer((line.vectors * lanes,), "float32")

        def add(at: Index) -> None:
            total = _zero(lanes)
            for tap in window.taps():
                total = total + staged[tap.phase, ramp(line.shifted(tap.shift) + at, lanes)]
            T.buffer_store(sums, total, [ramp(at, lanes)])

        def write(row: Index, column: Index, width: int) -> None:
            total = sums[ramp(row * line.pitch + column, width)]
            mean = total / _elements(window, with_padding, row, column, width)
            T.buffer_store(y, mean, [p // channels, p % channels, row, ramp(column, width)])

        planes.fill(staged, tirx.const(0.0, "float32"), lanes)
        planes.stage(staged, line, window, lanes, partial(_read, x, p))
        each_vector(line.vectors, lanes, add)
        planes.copy_rows(window.out, lanes, write)

    arguments = {"x": ((*sizes, *window.image), dtype), "y": ((*sizes, *window.out), "float32")}
    return planes.plane_kernel(math.prod(sizes), arguments, body)


def avg_pool2d_gradient(
    sizes: Pair, window: Window, lanes: int, dtype: str = "float32", with_padding: bool = False
) -> tirx.PrimFunc:
    """A kernel `(dy, dx)`: to each element its share of the windows that it is in."""
    channels, line = sizes[1], planes.output_line(window, lanes)

    def body(p: ir.Expr, dy: tirx.Buffer, dx: tirx.Buffer) -> None:
        shares = T.sblock_alloc_buffer((1, line.size), "float32")
        sums = T.sblock_alloc_buffer((window.phases, line.vectors * lanes), "float32")

        def divide(row: Index, column: Index, width: int) -> None:
            share = _read(dy, p, row, column, width)
            share = share / _elements(window, with_padding, row, column, width)
            T.buffer_store(shares, share, [0, ramp(line.at(row, column), width)])

        def add(phase: int, at: Index) -> None:
            total = _zero(lanes)
            for tap in window.taps():
                if tap.phase == phase:
                    total = total + shares[0, ramp(line.shifted_back(tap.shift) + at, lanes)]
            T.buffer_store(sums, total, [phase, ramp(at, lanes)])

        def write(row: Index, column: Index, width: int, value: ir.Expr) -> None:
            T.buffer_store(dx, value, [p // channels, p % channels, row, ramp(column, width)])

        planes.fill(shares, tirx.const(0.0, "float32"), lanes)
        planes.copy_rows(window.out, lanes, divide)
        for phase in range(window.phases):
            each_vector(line.vectors, lanes, partial(add, phase))
        planes.unstage(sums, line.pitch, window, lanes, write)

    arguments = {"dy": ((*sizes, *window.out), dtype), "dx": ((*sizes, *window.image), "float32")}
    return planes.plane_kernel(math.prod(sizes), arguments, body)


_KERNELS = {
    (False, False): avg_pool2d,
    (True, False): avg_pool2d_gradient,
    (False, True): pool_last.avg_pool,
    (True, True): pool_last.avg_pool_gradient,
}


def _zero(lanes: int) -> ir.Expr:
    return splat(tirx.const(0.0, "float32"), lanes)


def _read(tensor: tirx.Buffer, p: ir.Expr, row: Index, column: Index, width: int) -> ir.Expr:
    """Elements of a plane of a tensor as float32."""
    channels = int(tensor.shape[1])
    read = tensor[p // channels, p % channels, row, ramp(column, width)]
    return read.astype(vector_type("float32", width))


def _elements(window: Window, with_padding: bool, row: Index, column: Index, width: int) -> ir.Expr:
    """How many elements the windows of a row's steps, from a column on, take the mean of."""
    if with_padding:
        return splat(tirx.const(math.prod(window.kernel), "float32"), width)

    def inside(axis: int, step: ir.Expr, count: int) -> ir.Expr:
        extent, stride, pad, size = (
            splat(tirx.const(each[axis], "int32"), count)
            for each in (window.kernel, window.stride, window.pad, window.image)
        )
        first = step * stride - pad
        return tirx.min(first + extent, size) - tirx.max(
            first, splat(tirx.const(0, "int32"), count)
        )

    rows = inside(0, tirx.const(0, "int32") + row, 1)
    columns = inside(1, ramp(tirx.const(0, "int32") + column, width), width)
    return (splat(rows, width) * columns).astype(vector_type("float32", width))


def _lower(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    attrs, is_gradient = call.attrs, call.op.name == BACKWARD
    image, out = shape_of(call.args[-1]), shape_of(call.args[0] if is_gradient else call)
    is_last = str(attrs.layout) == LAST
    if is_last:
        image, out = permuted(image, SECOND), permuted(out, SECOND)
    steps = map(planes.pair, (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding))
    window = Window(planes.pair(image[2:]), planes.pair(out[2:]), *steps)
    plain = call.ty.dtype == "float32" and not attrs.ceil_mode
    if not plain or not window.is_small or window.dilation != (1, 1):
        return call.op.get_attr("FLegalize")(builder, call)
    operand = stored(builder, call.args[0])
    make = _KERNELS[is_gradient, is_last]
    dtype = str(operand.ty.dtype)
    kernel = make(planes.pair(image), window, lanes, dtype, bool(attrs.count_include_pad))
    name = builder.add_func(kernel, call.op.name.split(".")[-1])
    return relax.call_tir(name, relax.Tuple([operand]), call.ty)
