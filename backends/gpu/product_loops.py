"""Matrix products, convolutions and their two gradients, as products over tiles of a GPU.

A convolution is the product of its weights and a matrix of the image's elements that no memory
holds: each is read where it lies, or is zero where the window is outside (Chetlur et al., "cuDNN",
2014).
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx

from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.product import Extent, Operand, emit_product
from odtc.backends.kernels.fused import Product
from odtc.backends.kernels.grid import Axis
from odtc.backends.kernels.places import index, load, unflatten


def _matmul(product: Product, gpu: Gpu) -> None:
    trans_left, trans_right = map(bool, product.numbers)
    a, b = product.operands
    *batch, rows, depth = _matrix(a, trans_left)
    columns = _matrix(b, trans_right)[-1]

    def left(n: ir.Expr, m: ir.Expr, k: ir.Expr) -> ir.Expr:
        return load(a, [*unflatten(n, batch), *((k, m) if trans_left else (m, k))])

    def right(n: ir.Expr, p: ir.Expr, k: ir.Expr) -> ir.Expr:
        return load(b, [*unflatten(n, batch), *((p, k) if trans_right else (k, p))])

    emit_product(
        Extent(math.prod(batch), rows, depth, columns),
        Operand(left, not trans_left),
        Operand(right, trans_right),
        lambda n, m, p, value: product.store([*unflatten(n, batch), m, p], value),
        gpu,
    )


def _forward(product: Product, gpu: Gpu) -> None:
    """`y[n, m, o] = sum over c, t of x[n, c, o * stride + t * dilation - pad] * w[m, c, t]`."""
    (x, w), (axes, given) = product.operands, _axes(product.numbers)
    batch, channels, *_ = _sizes(x)
    out, taps = [axis.out for axis in axes], [axis.kernel for axis in axes]
    positions = math.prod(out)

    def weight(_: ir.Expr, m: ir.Expr, k: ir.Expr) -> ir.Expr:
        c, *t = unflatten(k, [channels, *taps])
        return _load(w, [m, c], t)

    def image(_: ir.Expr, p: ir.Expr, k: ir.Expr) -> ir.Expr:
        n, *o = unflatten(p, [batch, *out])
        c, *t = unflatten(k, [channels, *taps])
        return _in_window(x, [n, c], axes, o, t)

    def store(_: ir.Expr, m: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        n, *o = unflatten(p, [batch, *(axis.out for axis in given)])
        product.store([n, m, *o], value)

    emit_product(
        Extent(1, _sizes(w)[0], channels * math.prod(taps), batch * positions),
        Operand(weight, True),
        Operand(image, False),
        store,
        gpu,
    )


def _data_gradient(product: Product, gpu: Gpu) -> None:
    """`dx[n, c, i] = sum over m, t of dy[n, m, (i + pad - t * dilation) / stride] * w[m, c, t]`."""
    (dy, w), (axes, given) = product.operands, _axes(product.numbers)
    batch, rows, *_ = _sizes(dy)
    channels = _sizes(w)[1]
    image, taps = [axis.size for axis in axes], [axis.kernel for axis in axes]

    def weight(_: ir.Expr, c: ir.Expr, k: ir.Expr) -> ir.Expr:
        m, *t = unflatten(k, [rows, *taps])
        return _load(w, [m, c], t)

    def adjoint(_: ir.Expr, p: ir.Expr, k: ir.Expr) -> ir.Expr:
        n, *i = unflatten(p, [batch, *image])
        m, *t = unflatten(k, [rows, *taps])
        steps = [
            place + axis.pad - tap * axis.dilation
            for axis, place, tap in zip(axes, i, t, strict=True)
        ]
        hits = [
            tirx.EQ(tirx.floormod(step, axis.stride), index(0))
            for axis, step in zip(axes, steps, strict=True)
            if axis.stride > 1
        ]
        at = [tirx.floordiv(step, axis.stride) for axis, step in zip(axes, steps, strict=True)]
        return _inside(dy, [n, m], at, axes, hits, out=True)

    def store(_: ir.Expr, c: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        n, *i = unflatten(p, [batch, *(axis.size for axis in given)])
        product.store([n, c, *i], value)

    emit_product(
        Extent(1, channels, rows * math.prod(taps), batch * math.prod(image)),
        Operand(weight, False),
        Operand(adjoint, False),
        store,
        gpu,
    )


def _weight_gradient(product: Product, gpu: Gpu) -> None:
    """`dw[m, c, t] = sum over n, o of x[n, c, o * stride + t * dilation - pad] * dy[n, m, o]`."""
    (x, dy), (axes, _) = product.operands, _axes(product.numbers)
    batch, channels, *_ = _sizes(x)
    rows = _sizes(dy)[1]
    out, taps = [axis.out for axis in axes], [axis.kernel for axis in axes]

    def adjoint(_: ir.Expr, m: ir.Expr, k: ir.Expr) -> ir.Expr:
        n, *o = unflatten(k, [batch, *out])
        return _load(dy, [n, m], o)

    def image(_: ir.Expr, p: ir.Expr, k: ir.Expr) -> ir.Expr:
        c, *t = unflatten(p, [channels, *taps])
        n, *o = unflatten(k, [batch, *out])
        return _in_window(x, [n, c], axes, o, t)

    def store(_: ir.Expr, m: ir.Expr, p: ir.Expr, value: ir.Expr) -> None:
        c, *t = unflatten(p, [channels, *taps])
        product.store([m, c, *_padded(product.result, t)], value)

    emit_product(
        Extent(1, rows, batch * math.prod(out), channels * math.prod(taps)),
        Operand(adjoint, True),
        Operand(image, True),
        store,
        gpu,
    )


GPU_LOOPS: dict[str, Callable[[Product, Gpu], None]] = {
    "matmul": _matmul,
    "convolution": _forward,
    "data-gradient": _data_gradient,
    "weight-gradient": _weight_gradient,
}


def _in_window(
    image: tirx.Buffer,
    outer: Sequence[ir.Expr],
    axes: Sequence[Axis],
    o: Sequence[ir.Expr],
    t: Sequence[ir.Expr],
) -> ir.Expr:
    """The element of an image that tap `t` of output `o` reads."""
    at = [
        place * axis.stride + tap * axis.dilation - axis.pad
        for axis, place, tap in zip(axes, o, t, strict=True)
    ]
    return _inside(image, outer, at, axes, [])


def _inside(
    tensor: tirx.Buffer,
    outer: Sequence[ir.Expr],
    at: Sequence[ir.Expr],
    axes: Sequence[Axis],
    conditions: Sequence[ir.Expr],
    *,
    out: bool = False,
) -> ir.Expr:
    """An element, or zero where a place is outside or a condition does not hold."""
    sizes = [axis.out if out else axis.size for axis in axes]
    tests = list(conditions)
    for axis, place, size in zip(axes, at, sizes, strict=True):
        if not axis.is_point:
            tests += [place >= 0, place < size]
    if not tests:
        return _load(tensor, outer, at)
    safe = [
        tirx.max(index(0), tirx.min(place, index(size - 1)))
        for place, size in zip(at, sizes, strict=True)
    ]
    value = _load(tensor, outer, safe)
    return tirx.if_then_else(tirx.all(*tests), value, tirx.const(0.0, "float32"))


def _axes(numbers: Sequence[int]) -> tuple[list[Axis], list[Axis]]:
    """The axes to walk along, and those that there are.

    Where every output is of one element in its place, a position is one number, whatever the rank.
    """
    given = [Axis(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)]
    if all(axis.is_point for axis in given):
        return [Axis.points(math.prod(axis.out for axis in given))], given
    return given, given


def _load(tensor: tirx.Buffer, outer: Sequence[ir.Expr], at: Sequence[ir.Expr]) -> ir.Expr:
    """An element by its place along the axes to walk along."""
    return load(tensor, [*outer, *_padded(tensor, at)])


def _padded(tensor: tirx.Buffer, at: Sequence[ir.Expr]) -> list[ir.Expr]:
    """Indices of all axes: of a dense tensor the last one may count through all."""
    return [*(index(0) for _ in range(len(tensor.shape) - 2 - len(at))), *at]


def _matrix(buffer: tirx.Buffer, transposed: bool) -> list[int]:
    sizes = _sizes(buffer)
    return [*sizes[:-2], sizes[-1], sizes[-2]] if transposed else sizes


def _sizes(buffer: tirx.Buffer) -> list[int]:
    return [int(size) for size in buffer.shape]
