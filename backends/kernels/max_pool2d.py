"""The gradient of 2-D max pooling: each output's gradient goes to the element that was the largest.

TVM's kernel asks, for every element of the image, which windows chose it. This one finds for each
window, in vectors, which of its elements it chose, and then sums, for each element of the image,
over the windows that may have chosen it. Of equal elements the first one wins, as in PyTorch.

Elements are compared as integers in the order of the floats, so that padding can be less than minus
infinity: it is never chosen.
"""

from collections.abc import Callable
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels import planes
from odtc.backends.kernels.max_pool2d_large import max_pool2d_gradient_of_large_windows
from odtc.backends.kernels.operand import shape_of, stored
from odtc.backends.kernels.planes import Line, Window
from odtc.backends.kernels.vectors import Index, each_vector, ramp, splat, vector_type

MAX_POOL_BACKWARD = "relax.grad.max_pool2d_backward"

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

_LOWEST = -(1 << 31)
# Stands for the chosen position where there is no window.
_NONE = -1


def max_pool2d_rules(lanes: int) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {MAX_POOL_BACKWARD: lambda builder, call: _lower(builder, call, lanes)}


def max_pool2d_gradient(
    count: int, window: Window, lanes: int, dtype: str = "float32"
) -> tirx.PrimFunc:
    """A kernel `(dy, x, dx)`, each with samples and channels as one dimension of planes.

    Args:
        count: of planes.
        window: how the window walks over a plane of `x`.
        lanes: elements in a vector register.
        dtype: of `x`; the gradients are float32.
    """
    inward, outward = planes.input_line(window, lanes), planes.output_line(window, lanes)

    def body(p: ir.Expr, dy: tirx.Buffer, x: tirx.Buffer, dx: tirx.Buffer) -> None:
        keys = T.sblock_alloc_buffer((window.phases, inward.size), "int32")
        first = T.sblock_alloc_buffer((inward.vectors * lanes,), "int32")
        chosen = T.sblock_alloc_buffer((1, outward.size), "int32")
        gradient = T.sblock_alloc_buffer((1, outward.size), "float32")
        total = T.sblock_alloc_buffer((window.phases, outward.vectors * lanes), "float32")

        def choose(i: Index, j: Index, width: int) -> None:
            here, there = ramp(i * inward.pitch + j, width), ramp(outward.at(i, j), width)
            T.buffer_store(chosen, first[here], [0, there])
            T.buffer_store(gradient, dy[p, i, ramp(j, width)], [0, there])

        def read(row: Index, column: Index, width: int) -> ir.Expr:
            return _key(x[p, row, ramp(column, width)], width)

        def write(row: Index, column: Index, width: int, value: ir.Expr) -> None:
            T.buffer_store(dx, value, [p, row, ramp(column, width)])

        planes.fill(keys, tirx.const(_LOWEST, "int32"), lanes)
        planes.stage(keys, inward, window, lanes, read)
        _find_first(first, keys, inward, window, lanes)
        planes.fill(chosen, tirx.const(_NONE, "int32"), lanes)
        planes.fill(gradient, tirx.const(0.0, "float32"), lanes)
        planes.copy_rows(window.out, lanes, choose)
        _sum_chosen(total, chosen, gradient, outward, window, lanes)
        planes.unstage(total, outward.pitch, window, lanes, write)

    arguments = {
        "dy": ((count, *window.out), "float32"),
        "x": ((count, *window.image), dtype),
        "dx": ((count, *window.image), "float32"),
    }
    return planes.plane_kernel(count, arguments, body)


def _key(elements: ir.Expr, width: int) -> ir.Expr:
    """Integers in the order of the floats, equal for both zeros."""
    floats = elements.astype(vector_type("float32", width))
    bits = tirx.reinterpret(vector_type("int32", width), floats)
    return tirx.Select(bits < _ints(0, width), _ints(_LOWEST, width) - bits, bits)


def _ints(value: int, width: int) -> ir.Expr:
    return splat(tirx.const(value, "int32"), width)


def _find_first(
    first: tirx.Buffer, keys: tirx.Buffer, line: Line, window: Window, lanes: int
) -> None:
    """Emits: for each window the position in it of the first of its largest elements."""
    largest = T.sblock_alloc_buffer((lanes,), "int32", scope="local")
    position = T.sblock_alloc_buffer((lanes,), "int32", scope="local")
    all_lanes = ramp(0, lanes)

    def search(at: Index) -> None:
        T.buffer_store(largest, _ints(_LOWEST, lanes), [all_lanes])
        T.buffer_store(position, _ints(0, lanes), [all_lanes])
        for number, tap in enumerate(window.taps()):
            key = keys[tap.phase, ramp(line.shifted(tap.shift) + at, lanes)]
            best = largest[all_lanes]
            chosen = tirx.Select(key > best, _ints(number, lanes), position[all_lanes])
            T.buffer_store(position, chosen, [all_lanes])
            T.buffer_store(largest, tirx.max(best, key), [all_lanes])
        T.buffer_store(first, position[all_lanes], [ramp(at, lanes)])

    each_vector(line.vectors, lanes, search)


def _sum_chosen(
    total: tirx.Buffer,
    chosen: tirx.Buffer,
    gradient: tirx.Buffer,
    line: Line,
    window: Window,
    lanes: int,
) -> None:
    """Emits: for each element of the image the gradients of the windows that chose it."""
    zero = splat(tirx.const(0.0, "float32"), lanes)

    def add(phase: int, at: Index) -> None:
        result = zero
        for number, tap in enumerate(window.taps()):
            if tap.phase == phase:
                there = ramp(line.shifted_back(tap.shift) + at, lanes)
                hit = tirx.EQ(chosen[0, there], _ints(number, lanes))
                result = result + tirx.Select(hit, gradient[0, there], zero)
        T.buffer_store(total, result, [phase, ramp(at, lanes)])

    for phase in range(window.phases):
        each_vector(line.vectors, lanes, partial(add, phase))


def _lower(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    dy, x = call.args[0], stored(builder, call.args[1])
    attrs = call.attrs
    if str(attrs.layout) != "NCHW" or call.ty.dtype != "float32":
        return call.op.get_attr("FLegalize")(builder, call)
    samples, channels, height, width = shape_of(x)
    rows, columns = shape_of(dy)[2:]
    window = Window(
        (height, width),
        (rows, columns),
        *map(planes.pair, (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)),
    )
    count, dtype = samples * channels, str(x.ty.dtype)
    if window.is_small:
        kernel = max_pool2d_gradient(count, window, lanes, dtype)
    else:
        kernel = max_pool2d_gradient_of_large_windows(count, window, dtype)
    name = builder.add_func(kernel, "max_pool2d_gradient")
    flat = [builder.emit(relax.op.reshape(each, (count, *shape_of(each)[2:]))) for each in (dy, x)]
    result = relax.TensorType((count, height, width), "float32")
    gradient = builder.emit(relax.call_tir(name, relax.Tuple(flat), result))
    return relax.op.reshape(gradient, shape_of(x))
