"""2-D max pooling in training, and its gradient, plane by plane.

The forward pass says for each window which of its elements it chose; the backward pass sums, for
each element of the image, over the windows that chose it. Neither the image nor what was pooled is
needed for that. Both work on planes that are staged as lines, in vectors.

Of equal elements the first one wins, and not-a-numbers over all else, as in PyTorch. Padding is
never chosen. Where the pooling rectifies, a window starts from zero: without a positive element it
chooses none, and passes no gradient back.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

from tvm import ir, relax, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.channels_last import pool as pool_last
from odtc.backends.kernels.common.operand import call_kernel
from odtc.backends.kernels.common.vectors import (
    Index,
    each_block,
    interleave,
    ramp,
    splat,
    vector_type,
)
from odtc.backends.kernels.pool import planes
from odtc.backends.kernels.pool.bands import Band, each_band, only, stage, usual_band
from odtc.backends.kernels.pool.max_pool2d_large import large_max_pool2d, large_max_pool2d_gradient
from odtc.backends.kernels.pool.planes import Pair, Window
from odtc.core.ir.layouts import LAST, SECOND, permuted
from odtc.core.ir.relax_calls import layout_of
from odtc.dialect.images import max_pool
from odtc.dialect.images.max_pool import chosen_dtype

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

# Of a value, the best one so far, and their number of elements.
IsLarger = Callable[[ir.Expr, ir.Expr, int], ir.Expr]

_INFINITY = 0x7F800000
# Vectors that a pass over all elements keeps what it found in, so that none waits for another.
_APART = 4


def max_pool2d_rules(lanes: int) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        max_pool.max_pool2d.name: partial(_lower_forward, lanes=lanes),
        max_pool.max_pool2d_backward.name: partial(_lower_backward, lanes=lanes),
    }


def max_pool2d(
    sizes: Pair, window: Window, lanes: int, *, rectifies: bool = False
) -> tirx.PrimFunc:
    """A kernel `(x, y, chosen)`: of each window the largest element, and its number.

    Args:
        sizes: samples and channels.
        window: how the window walks over a plane of `x`.
        lanes: elements in a vector register.
        rectifies: whether zero is the least result.
    """
    taps, channels, dtype = (
        math.prod(window.kernel),
        sizes[1],
        chosen_dtype(math.prod(window.kernel)),
    )
    shifts = [tap.shift for tap in window.taps()]
    band = usual_band(window.image, window.stride, window.out, shifts)
    lowest = 0.0 if rectifies else -math.inf

    def body(p: ir.Expr, x: tirx.Buffer, y: tirx.Buffer, chosen: tirx.Buffer) -> None:
        n, c = p // channels, p % channels
        staged = _filled(band, lanes, lowest)

        def read(row: Index, column: Index, width: int) -> ir.Expr:
            return x[n, c, row, ramp(column, width)]

        def from_band(first: Index, _: Index) -> None:
            def write(row: Index, column: Index, value: ir.Expr, number: ir.Expr) -> None:
                i, width = first + row, value.ty.dtype.lanes
                if any(window.pad) and not rectifies:
                    none = _first_inside(window, i, column, width)
                    number = tirx.Select(tirx.EQ(number, _ints(taps, width)), none, number)
                there = [n, c, i, ramp(column, width)]
                T.buffer_store(y, value, there)
                T.buffer_store(chosen, number.astype(vector_type(dtype, width)), there)

            def find(is_larger: IsLarger) -> None:
                start = lowest, taps if rectifies or any(window.pad) else 0
                _find_largest(staged, write, start, is_larger, band, window, lanes)

            stage(staged, band, first, lanes, read, around=lowest)
            with T.If(_has_nan(staged, lanes)):
                with T.Then():
                    find(_is_larger_or_nan)
                with T.Else():
                    find(lambda value, best, _: value > best)

        each_band(band, from_band)

    out = (*sizes, *window.out)
    arguments = {
        "x": ((*sizes, *window.image), "float32"),
        "y": (out, "float32"),
        "chosen": (out, dtype),
    }
    return planes.plane_kernel(math.prod(sizes), arguments, body, results=2)


def max_pool2d_gradient(sizes: Pair, window: Window, lanes: int) -> tirx.PrimFunc:
    """A kernel `(dy, chosen, dx)`.

    Args:
        sizes: samples and channels.
        window: how the window walks over a plane of `dx`.
        lanes: elements in a vector register.
    """
    channels = sizes[1]
    shifts = [(-tap.shift[0], -tap.shift[1]) for tap in window.taps()]
    # The gradient, and which element each window chose.
    band = usual_band(window.out, (1, 1), window.phase_size, shifts, copies=2)

    def body(p: ir.Expr, dy: tirx.Buffer, chosen: tirx.Buffer, dx: tirx.Buffer) -> None:
        n, c = p // channels, p % channels
        # Where there is no window, none is chosen; what lies there of the gradient is not used.
        nowhere = math.prod(window.kernel)
        numbers = _filled(band, lanes, nowhere, "int32")
        gradient = _filled(band, lanes, 0.0)

        def slope(row: Index, column: Index, width: int) -> ir.Expr:
            return dy[n, c, row, ramp(column, width)]

        def number(row: Index, column: Index, width: int) -> ir.Expr:
            value = chosen[n, c, row, ramp(column, width)]
            return value.astype(vector_type("int32", width))

        def from_band(first: Index, _: Index) -> None:
            def write(row: Index, column: Index, value: ir.Expr) -> None:
                width = value.ty.dtype.lanes
                T.buffer_store(dx, value, [n, c, row, ramp(column, width)])

            stage(numbers, band, first, lanes, number, around=nowhere)
            stage(gradient, band, first, lanes, slope)
            _sum_chosen(write, numbers, gradient, first, band, window, lanes)

        each_band(band, from_band)

    out = (*sizes, *window.out)
    arguments = {
        "dy": (out, "float32"),
        "chosen": (out, chosen_dtype(math.prod(window.kernel))),
        "dx": ((*sizes, *window.image), "float32"),
    }
    return planes.plane_kernel(math.prod(sizes), arguments, body)


def _ints(value: int, width: int) -> ir.Expr:
    return splat(tirx.const(value, "int32"), width)


def _size_bits(value: ir.Expr, width: int) -> ir.Expr:
    """The bits of a float without its sign: above those of infinity it is not a number."""
    bits = tirx.reinterpret(vector_type("int32", width), value)
    return bits & _ints(0x7FFFFFFF, width)


def _is_larger_or_nan(value: ir.Expr, best: ir.Expr, width: int) -> ir.Expr:
    return tirx.Or(value > best, _size_bits(value, width) > _ints(_INFINITY, width))


def _has_nan(staged: tirx.Buffer, lanes: int) -> ir.Expr:
    """Emits a pass over the lines `[phases, size]`; returns whether it met what is not a number.

    It takes less time than to ask for each element of each window.
    """
    phases, size = (int(extent) for extent in staged.shape)
    vectors = size // lanes
    apart = min(_APART, vectors)
    worst = T.sblock_alloc_buffer((apart * lanes,), "int32")
    found = T.sblock_alloc_buffer((1,), "int32")
    every = [ramp(each * lanes, lanes) for each in range(apart)]
    for each in every:
        T.buffer_store(worst, _ints(0, lanes), [each])
    with T.serial(0, phases) as phase:

        def look(vector: Index, each: ir.Expr) -> None:
            here = _size_bits(staged[phase, ramp(vector * lanes, lanes)], lanes)
            T.buffer_store(worst, tirx.max(worst[each], here), [each])

        with T.serial(0, vectors // apart) as some:
            for number, each in enumerate(every):
                look(some * apart + number, each)
        for number in range(vectors % apart):
            look(vectors - 1 - number, every[number])
    T.buffer_store(found, tirx.const(0, "int32"), [0])
    for each in every[1:]:
        T.buffer_store(worst, tirx.max(worst[every[0]], worst[each]), [every[0]])
    with T.serial(0, lanes) as lane:
        T.buffer_store(found, tirx.max(found[0], worst[lane]), [0])
    return found[0] > tirx.const(_INFINITY, "int32")


def _find_largest(
    staged: tirx.Buffer,
    write: Callable[[Index, Index, ir.Expr, ir.Expr], None],
    start: tuple[float, int],
    is_larger: IsLarger,
    band: Band,
    window: Window,
    lanes: int,
) -> None:
    """Emits: for each window of a band its largest element, and that one's number.

    Args:
        staged: the band.
        write: stores them, of a row and the column of the first one.
        start: the element and the number of windows in which nothing is larger.
        is_larger: whether a value takes the place of the best one so far.
        band: how it lies.
        window: how the window walks over the image.
        lanes: elements in a vector.
    """
    lowest, none = start
    best = T.sblock_alloc_buffer((lanes,), "float32")
    # As wide as what is compared: LLVM would narrow the outcome of each comparison to integers that
    # are stored in bytes.
    number = T.sblock_alloc_buffer((lanes,), "float32")
    with T.serial(band.rows) as row:

        def search(column: Index, width: int) -> None:
            every = ramp(0, width)

            def compare(tap: Index, phase: Index, down: Index, right: Index) -> None:
                value = staged[phase, ramp(band.at(row + down, column + right), width)]
                hit = is_larger(value, best[every], width)
                tap_number = splat((tirx.const(0, "int32") + tap).astype("float32"), width)
                T.buffer_store(number, tirx.Select(hit, tap_number, number[every]), [every])
                T.buffer_store(best, tirx.Select(hit, value, best[every]), [every])

            T.buffer_store(best, splat(tirx.const(lowest, "float32"), width), [every])
            T.buffer_store(number, splat(tirx.const(float(none), "float32"), width), [every])
            _each_tap(window, compare)
            write(row, column, best[every], number[every].astype(vector_type("int32", width)))

        each_block(window.out[1], lanes, search)


def _each_tap(window: Window, emit: Callable[[Index, Index, Index, Index], None]) -> None:
    """Emits `emit(number, phase, row, column)` for each tap, or in two loops if there are many.

    Row and column are those in that phase from a window to what it reads by the tap.
    """
    if window.is_small:
        for number, tap in enumerate(window.taps()):
            emit(number, tap.phase, *tap.shift)
        return

    def split(axis: int, at: Index) -> tuple[ir.Expr, ir.Expr]:
        offset, step = at * window.dilation[axis] - window.pad[axis], window.stride[axis]
        return tirx.floordiv(offset, step), tirx.floormod(offset, step)

    with T.serial(0, window.kernel[0]) as a, T.serial(0, window.kernel[1]) as b:
        (row, row_phase), (column, column_phase) = split(0, a), split(1, b)
        phase = row_phase * window.stride[1] + column_phase
        emit(a * window.kernel[1] + b, phase, row, column)


def _first_inside(window: Window, i: Index, j: Index, width: int) -> ir.Expr:
    """Numbers of the first elements that are no padding in front, for windows of a row's steps."""

    def first(axis: int, step: ir.Expr, count: int) -> ir.Expr:
        stride, pad = _ints(window.stride[axis], count), _ints(window.pad[axis], count)
        gap = _ints(window.dilation[axis], count)
        outside = tirx.max(pad - step * stride, _ints(0, count))
        if window.dilation[axis] == 1:
            return outside
        return tirx.floordiv(outside + gap - _ints(1, count), gap)

    zero = tirx.const(0, "int32")
    row = first(0, zero + i, 1) * tirx.const(window.kernel[1], "int32")
    return splat(row, width) + first(1, ramp(zero + j, width), width)


def _sum_chosen(
    write: Callable[[Index, Index, ir.Expr], None],
    numbers: tirx.Buffer,
    gradient: tirx.Buffer,
    first: Index,
    band: Band,
    window: Window,
    lanes: int,
) -> None:
    """Emits: for each element of a band of the image the gradients of the windows that chose it.

    Args:
        write: stores them, of a row of the image and the column of the first one.
        numbers: which element each window chose.
        gradient: of what is pooled.
        first: the first row of the band, in each phase.
        band: how both lie.
        window: how the window walks over the image.
        lanes: elements in a vector.
    """
    taps, (height, columns), (down, right) = window.taps(), window.image, window.stride

    def total(phase: int, row: Index, column: Index, width: int) -> ir.Expr:
        result = zero = splat(tirx.const(0.0, "float32"), width)
        for number, tap in enumerate(taps):
            if tap.phase == phase:
                at = band.at(row - tap.shift[0], column - tap.shift[1])
                there = [0, ramp(at, width)]
                hit = tirx.EQ(numbers[tuple(there)], _ints(number, width))
                result = result + tirx.Select(hit, gradient[tuple(there)], zero)
        return result

    def emit(phase: int, row: Index, line: Index) -> None:
        def block(column: Index, ways: int, width: int) -> None:
            parts = [total(phase * right + way, row, column, width) for way in range(ways)]
            write(line, column * right, interleave(parts, width))

        each_block(columns // right, lanes, lambda at, width: block(at, right, width))
        if columns % right:
            block(columns // right, columns % right, 1)

    for phase in range(min(down, height)):
        with T.serial(band.rows) as row:
            line = T.bind((first + row) * down + phase)
            with only(line < height, always=height % down == 0 or phase < height % down):
                emit(phase, row, line)


def _filled(band: Band, lanes: int, value: float, dtype: str = "float32") -> tirx.Buffer:
    phases, size = band.shape
    buffer = T.sblock_alloc_buffer((phases, -(-size // lanes) * lanes), dtype)
    planes.fill(buffer, tirx.const(value, dtype), lanes)
    return buffer


def pooling_of(
    call: relax.Call, image: Sequence[ir.Expr], out: Sequence[ir.Expr]
) -> tuple[Pair, Window]:
    """Samples and channels of a pooling, and how its window walks, from its call and shapes."""
    names = ("pool_size", "strides", "dilation", "padding")
    steps = (planes.pair(call.attrs[name]) for name in names)
    shapes = [[int(size) for size in each] for each in (image, out)]
    if layout_of(call) == LAST:
        shapes = [permuted(each, SECOND) for each in shapes]
    window = Window(*(planes.pair(shape[2:]) for shape in shapes), *steps)
    return planes.pair(shapes[0]), window


def _lower_forward(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    (data,) = call.args
    sizes, window = pooling_of(call, data.ty.shape, call.ty.fields[0].shape)
    pooling = max_pool.max_pool2d.read(call)
    rectifies = pooling.rectifies
    if pooling.layout == LAST:
        kernel = pool_last.max_pool(sizes, window, lanes, rectifies=rectifies)
    elif window.is_small or (window.has_few_phases and math.prod(window.out) >= lanes):
        kernel = max_pool2d(sizes, window, lanes, rectifies=rectifies)
    else:
        kernel = large_max_pool2d(sizes, window, rectifies=rectifies)
    return call_kernel(builder, kernel, "max_pool2d", call, [data])


def _lower_backward(builder: relax.BlockBuilder, call: relax.Call, lanes: int) -> relax.Expr:
    sizes, window = pooling_of(call, call.ty.shape, call.args[0].ty.shape)
    if layout_of(call) == LAST:
        kernel = pool_last.max_pool_gradient(sizes, window, lanes)
    elif window.is_small:
        kernel = max_pool2d_gradient(sizes, window, lanes)
    else:
        kernel = large_max_pool2d_gradient(sizes, window)
    name = builder.add_func(kernel, "max_pool2d_gradient")
    return relax.call_tir(name, relax.Tuple(list(call.args)), call.ty)
