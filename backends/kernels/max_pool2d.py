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

from odtc.backends.kernels import planes, pool_last
from odtc.backends.kernels.max_pool2d_large import large_max_pool2d, large_max_pool2d_gradient
from odtc.backends.kernels.operand import call_kernel
from odtc.backends.kernels.planes import Line, Pair, Window
from odtc.backends.kernels.vectors import Index, each_vector, ramp, splat, vector_type
from odtc.core.chosen import chosen_dtype
from odtc.core.kernel_marks import MAX_POOL, MAX_POOL_BACKWARD
from odtc.core.layouts import LAST, SECOND, permuted
from odtc.core.relax_calls import layout_of

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

# Of a value, the best one so far, and their number of elements.
IsLarger = Callable[[ir.Expr, ir.Expr, int], ir.Expr]

_INFINITY = 0x7F800000


def max_pool2d_rules(lanes: int) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {
        MAX_POOL: partial(_lower_forward, lanes=lanes),
        MAX_POOL_BACKWARD: partial(_lower_backward, lanes=lanes),
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
    line, taps = planes.input_line(window, lanes), math.prod(window.kernel)
    dtype, channels = chosen_dtype(taps), sizes[1]
    lowest = tirx.const(0.0 if rectifies else -math.inf, "float32")

    def body(p: ir.Expr, x: tirx.Buffer, y: tirx.Buffer, chosen: tirx.Buffer) -> None:
        staged = T.sblock_alloc_buffer((window.phases, line.size), "float32")
        largest = T.sblock_alloc_buffer((line.vectors * lanes,), "float32")
        numbers = T.sblock_alloc_buffer((line.vectors * lanes,), dtype)

        def read(row: Index, column: Index, width: int) -> ir.Expr:
            return x[p // channels, p % channels, row, ramp(column, width)]

        def write(i: Index, j: Index, width: int) -> None:
            here = ramp(i * line.pitch + j, width)
            there = [p // channels, p % channels, i, ramp(j, width)]
            number = numbers[here]
            if any(window.pad) and not rectifies:
                none = splat(tirx.const(taps, dtype), width)
                first = _first_inside(window, i, j, width).astype(vector_type(dtype, width))
                number = tirx.Select(tirx.EQ(number, none), first, number)
            T.buffer_store(y, largest[here], there)
            T.buffer_store(chosen, number, there)

        def find(is_larger: IsLarger) -> None:
            start = lowest, taps if rectifies or any(window.pad) else 0
            _find_largest(staged, (largest, numbers), start, is_larger, line, window, lanes)

        planes.fill(staged, lowest, lanes)
        planes.stage(staged, line, window, lanes, read)
        with T.If(_has_nan(staged, lanes)):
            with T.Then():
                find(_is_larger_or_nan)
            with T.Else():
                find(lambda value, best, _: value > best)
        planes.copy_rows(window.out, lanes, write)

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
    line, channels = planes.output_line(window, lanes), sizes[1]

    def body(p: ir.Expr, dy: tirx.Buffer, chosen: tirx.Buffer, dx: tirx.Buffer) -> None:
        numbers = T.sblock_alloc_buffer((line.size,), "int32")
        gradient = T.sblock_alloc_buffer((line.size,), "float32")
        total = T.sblock_alloc_buffer((window.phases, line.vectors * lanes), "float32")

        def stage(i: Index, j: Index, width: int) -> None:
            here = [p // channels, p % channels, i, ramp(j, width)]
            there = [ramp(line.at(i, j), width)]
            number = chosen[tuple(here)].astype(vector_type("int32", width))
            T.buffer_store(numbers, number, there)
            T.buffer_store(gradient, dy[tuple(here)], there)

        def write(row: Index, column: Index, width: int, value: ir.Expr) -> None:
            T.buffer_store(dx, value, [p // channels, p % channels, row, ramp(column, width)])

        # Where there is no window, none is chosen; what lies there of the gradient is not used.
        nowhere = splat(tirx.const(math.prod(window.kernel), "int32"), lanes)
        each_vector(
            line.size // lanes,
            lanes,
            lambda at: T.buffer_store(numbers, nowhere, [ramp(at, lanes)]),
        )
        planes.copy_rows(window.out, lanes, stage)
        _sum_chosen(total, numbers, gradient, line, window, lanes)
        planes.unstage(total, line.pitch, window, lanes, write)

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
    worst = T.sblock_alloc_buffer((lanes,), "int32")
    found = T.sblock_alloc_buffer((1,), "int32")
    every = ramp(0, lanes)
    T.buffer_store(worst, _ints(0, lanes), [every])
    with T.serial(0, phases) as phase:

        def look(at: Index) -> None:
            here = _size_bits(staged[phase, ramp(at, lanes)], lanes)
            T.buffer_store(worst, tirx.max(worst[every], here), [every])

        each_vector(size // lanes, lanes, look)
    T.buffer_store(found, tirx.const(0, "int32"), [0])
    with T.serial(0, lanes) as lane:
        T.buffer_store(found, tirx.max(found[0], worst[lane]), [0])
    return found[0] > tirx.const(_INFINITY, "int32")


def _find_largest(
    staged: tirx.Buffer,
    results: tuple[tirx.Buffer, tirx.Buffer],
    start: tuple[ir.Expr, int],
    is_larger: IsLarger,
    line: Line,
    window: Window,
    lanes: int,
) -> None:
    """Emits: for each window its largest element, and that one's number.

    Args:
        staged: the image `[phases, size]`.
        results: the largest elements, and their numbers.
        start: the element and the number of windows in which nothing is larger.
        is_larger: whether a value takes the place of the best one so far.
        line: how the image is staged.
        window: how the window walks over it.
        lanes: elements in a vector.
    """
    (largest, numbers), (lowest, none) = results, start
    best = T.sblock_alloc_buffer((lanes,), "float32")
    number = T.sblock_alloc_buffer((lanes,), "int32")
    every = ramp(0, lanes)

    def search(at: Index) -> None:
        def compare(tap: Index, phase: Index, shifted: Index) -> None:
            value = staged[phase, ramp(shifted + at, lanes)]
            hit = is_larger(value, best[every], lanes)
            tap_number = splat(tirx.const(0, "int32") + tap, lanes)
            T.buffer_store(number, tirx.Select(hit, tap_number, number[every]), [every])
            T.buffer_store(best, tirx.Select(hit, value, best[every]), [every])

        T.buffer_store(best, splat(lowest, lanes), [every])
        T.buffer_store(number, _ints(none, lanes), [every])
        _each_tap(window, line, compare)
        T.buffer_store(largest, best[every], [ramp(at, lanes)])
        small = number[every].astype(vector_type(str(numbers.dtype), lanes))
        T.buffer_store(numbers, small, [ramp(at, lanes)])

    each_vector(line.vectors, lanes, search)


def _each_tap(window: Window, line: Line, emit: Callable[[Index, Index, Index], None]) -> None:
    """Emits `emit(number, phase, place)` for each tap, or in two loops if there are many.

    `place` is where the first window reads in the line of that phase.
    """
    if window.is_small:
        for number, tap in enumerate(window.taps()):
            emit(number, tap.phase, line.shifted(tap.shift))
        return

    def split(axis: int, at: Index) -> tuple[ir.Expr, ir.Expr]:
        offset, step = at * window.dilation[axis] - window.pad[axis], window.stride[axis]
        return tirx.floordiv(offset, step), tirx.floormod(offset, step)

    with T.serial(0, window.kernel[0]) as a, T.serial(0, window.kernel[1]) as b:
        (row, row_phase), (column, column_phase) = split(0, a), split(1, b)
        place = line.base + row * line.pitch + column
        emit(a * window.kernel[1] + b, row_phase * window.stride[1] + column_phase, place)


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
    total: tirx.Buffer,
    numbers: tirx.Buffer,
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
                hit = tirx.EQ(numbers[there], _ints(number, lanes))
                result = result + tirx.Select(hit, gradient[there], zero)
        T.buffer_store(total, result, [phase, ramp(at, lanes)])

    for phase in range(window.phases):
        each_vector(line.vectors, lanes, partial(add, phase))


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
    rectifies = bool(call.attrs["rectifies"])
    if layout_of(call) == LAST:
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
