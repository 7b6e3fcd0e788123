"""Matrix products, convolutions and their two gradients, as products over tiles of a GPU.

A convolution is the product of its weights and a matrix of the image's elements that no memory
holds: each is read where it lies, or is zero where the window is outside (Chetlur et al., "cuDNN",
2014).
"""

import itertools
import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx

from odtc.backends.gpu.grouped import weights
from odtc.backends.gpu.machine import Gpu
from odtc.backends.gpu.multiply import ACROSS, SINGLE
from odtc.backends.gpu.product import emit_product
from odtc.backends.gpu.product_results import Place, Results
from odtc.backends.gpu.product_slices import ProductOperand, ProductTerm
from odtc.backends.gpu.runs import run_of, run_of_image, run_of_weights
from odtc.backends.gpu.tiling import ProductExtent
from odtc.backends.gpu.windows import (
    by_row,
    by_tap_or_channel,
    in_window,
    inside,
    load_at,
    load_of_row,
    of_terms,
    padded,
    whole_slices,
)
from odtc.backends.kernels.common.places import Readable, index, load, unflatten
from odtc.backends.kernels.common.quantised import Quantised
from odtc.backends.kernels.convolution.grid import ConvolutionAxis, Walk
from odtc.backends.kernels.product.fused import Product

# Axes of a plane, and columns of a product that is no tile.
_PLANE, _NARROW = 2, 32


def _codes_of(operand: Readable) -> Quantised | None:
    """An operand that is dequantised as it is read; None for any other."""
    return operand if isinstance(operand, Quantised) else None


def _matmul(product: Product, gpu: Gpu) -> None:
    trans_left, trans_right = map(bool, product.numbers)
    a, b = product.operands
    *batch, rows, depth = _matrix(a, trans_left)
    columns = _matrix(b, trans_right)[-1]

    def left(n: ir.Expr, m: ir.Expr, k: ProductTerm) -> ir.Expr:
        return load(a, [*unflatten(n, batch), *((k.flat, m) if trans_left else (m, k.flat))])

    def right(n: ir.Expr, p: ir.Expr, k: ProductTerm) -> ir.Expr:
        return load(b, [*unflatten(n, batch), *((p, k.flat) if trans_right else (k.flat, p))])

    emit_product(
        ProductExtent(math.prod(batch), rows, depth, columns),
        ProductOperand(left, not trans_left, run_of(a, len(a.shape) - 1)),
        ProductOperand(right, trans_right, run_of(b, len(b.shape) - 1), _codes_of(b)),
        _results(
            product, lambda n, m, p: [*unflatten(n, batch), m, p], len(product.result.shape) - 1
        ),
        gpu,
    )


def _forward(product: Product, gpu: Gpu) -> None:
    """`y[n, m, o] = sum over c, t of x[n, c, o * stride + t * dilation - pad] * w[m, c, t]`."""
    (x, w), (axes, given) = product.operands, _axes(product.numbers)
    batch, channels, *_ = _sizes(x)
    out, taps = [axis.out for axis in axes], [axis.kernel for axis in axes]
    positions = math.prod(out)
    row = whole_slices(channels, taps, SINGLE.terms)
    depth = channels * math.prod([*taps[:-1], row or taps[-1]])
    of_term = by_row(channels, taps, row) if row else of_terms(channels, taps, SINGLE.terms, gpu)

    def weight(_: ir.Expr, m: ir.Expr, k: ProductTerm) -> ir.Expr:
        c, t = of_term(k)
        return load_of_row(w, [m, c], t) if row else load_at(w, [m, c], t)

    def image(_: ir.Expr, p: ir.Expr, k: ProductTerm) -> ir.Expr:
        n, *o = unflatten(p, [batch, *out])
        c, t = of_term(k)
        return in_window(x, [n, c], axes, o, t, [t[-1] < taps[-1]] if row else [])

    def place(_: ir.Expr, m: ir.Expr, p: ir.Expr) -> list[ir.Expr]:
        n, *o = unflatten(p, [batch, *(axis.out for axis in given)])
        return [n, m, *o]

    emit_product(
        ProductExtent(1, _sizes(w)[0], depth, batch * positions),
        ProductOperand(weight, True, run_of_weights(w)),
        ProductOperand(image, False, run_of_image(x, axes)),
        _results(product, place, 2),
        gpu,
    )


def _data_gradient(product: Product, gpu: Gpu) -> None:
    """`dx[n, c, i] = sum over m, t of dy[n, m, (i + pad - t * dilation) / stride] * w[m, c, t]`.

    Of a window that steps, the elements of each remainder are a product of their own, of the taps
    that reach them.
    """
    axes, _ = _axes(product.numbers)
    if any(axis.stride > 1 and axis.dilation > 1 for axis in axes):
        _data_gradient_with_holes(product, gpu)
        return
    pieces = itertools.product(*(axis.backward() for axis in axes))
    # All take the decisions of the largest one.
    for walk in sorted(pieces, key=lambda piece: math.prod(each.taps for each in piece)):
        _piece_of_data_gradient(product, walk, gpu)


def _piece_of_data_gradient(product: Product, walk: Sequence[Walk], gpu: Gpu) -> None:
    (dy, w), (axes, given) = product.operands, _axes(product.numbers)
    batch, rows, *_ = _sizes(dy)
    channels = _sizes(w)[1]
    out, taps = [each.out for each in walk], [each.taps for each in walk]
    of_term = of_terms(rows, taps, SINGLE.terms, gpu)

    def weight(_: ir.Expr, c: ir.Expr, k: ProductTerm) -> ir.Expr:
        m, t = of_term(k)
        return load_at(w, [m, c], [each.weight(tap) for each, tap in zip(walk, t, strict=True)])

    def adjoint(_: ir.Expr, p: ir.Expr, k: ProductTerm) -> ir.Expr:
        n, *o = unflatten(p, [batch, *out])
        m, t = of_term(k)
        at = [
            place + each.shift(tap) - each.staged.before
            for each, place, tap in zip(walk, o, t, strict=True)
        ]
        return inside(dy, [n, m], at, axes, [], out=True)

    def place(_: ir.Expr, c: ir.Expr, p: ir.Expr) -> list[ir.Expr]:
        if axes != given:
            n, *i = unflatten(p, [batch, *(axis.size for axis in given)])
        else:
            n, *o = unflatten(p, [batch, *out])
            i = [index(each.target(at)) for each, at in zip(walk, o, strict=True)]
        return [n, c, *i]

    emit_product(
        ProductExtent(1, channels, rows * math.prod(taps), batch * math.prod(out)),
        ProductOperand(weight, False, run_of_weights(w)),
        ProductOperand(adjoint, False, run_of_image(dy, axes)),
        _results(product, place, 2 if all(axis.stride == 1 for axis in axes) else None),
        gpu,
    )


def _data_gradient_with_holes(product: Product, gpu: Gpu) -> None:
    """Emits a data gradient with dilated taps: each element tests which taps reach it."""
    (dy, w), (axes, _) = product.operands, _axes(product.numbers)
    batch, rows, *_ = _sizes(dy)
    channels = _sizes(w)[1]
    image, taps = [axis.size for axis in axes], [axis.kernel for axis in axes]
    of_term = of_terms(rows, taps, SINGLE.terms, gpu)

    def weight(_: ir.Expr, c: ir.Expr, k: ProductTerm) -> ir.Expr:
        m, t = of_term(k)
        return load_at(w, [m, c], t)

    def adjoint(_: ir.Expr, p: ir.Expr, k: ProductTerm) -> ir.Expr:
        n, *i = unflatten(p, [batch, *image])
        m, t = of_term(k)
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
        return inside(dy, [n, m], at, axes, hits, out=True)

    def place(_: ir.Expr, c: ir.Expr, p: ir.Expr) -> list[ir.Expr]:
        n, *i = unflatten(p, [batch, *image])
        return [n, c, *i]

    emit_product(
        ProductExtent(1, channels, rows * math.prod(taps), batch * math.prod(image)),
        ProductOperand(weight, False),
        ProductOperand(adjoint, False),
        _results(product, place, 2),
        gpu,
    )


def _weight_gradient(product: Product, gpu: Gpu) -> None:
    """`dw[m, c, t] = sum over n, o of x[n, c, o * stride + t * dilation - pad] * dy[n, m, o]`."""
    if _is_narrow(product, gpu):
        weights.weight_gradient(product, gpu)
        return
    (x, dy), (axes, _) = product.operands, _axes(product.numbers)
    batch, channels, *_ = _sizes(x)
    rows = _sizes(dy)[1]
    *rest, last = [axis.out for axis in axes]
    taps = [axis.kernel for axis in axes]
    of_column = by_tap_or_channel(channels, taps, ACROSS, gpu)

    def position(k: ProductTerm) -> tuple[ir.Expr, list[ir.Expr]]:
        line, place = k.split(last)
        n, *o = unflatten(line, [batch, *rest])
        return n, [*o, place]

    def adjoint(_: ir.Expr, m: ir.Expr, k: ProductTerm) -> ir.Expr:
        n, o = position(k)
        return load_at(dy, [n, m], o)

    def image(_: ir.Expr, p: ir.Expr, k: ProductTerm) -> ir.Expr:
        c, t = of_column(lambda period: (p // period, p % period))
        n, o = position(k)
        return in_window(x, [n, c], axes, o, t)

    def place(_: ir.Expr, m: ir.Expr, p: ir.Expr) -> list[ir.Expr]:
        c, t = of_column(lambda period: (p // period, p % period))
        return [m, c, *padded(product.result, t)]

    emit_product(
        ProductExtent(1, rows, batch * math.prod([*rest, last]), channels * math.prod(taps)),
        ProductOperand(adjoint, True, run_of(dy, 2)),
        ProductOperand(image, True, run_of_image(x, axes)),
        _results(product, place, 1 if math.prod(taps) == 1 else None),
        gpu,
    )


def _is_narrow(product: Product, gpu: Gpu) -> bool:
    """Whether a gradient of weights has fewer columns than tiles, and a window's sums fit in items.

    So it is where an image has its colours: a tile would be a third of the results that it is cut
    for, and each of its elements has a place of its own in the image.
    """
    rows, channels, *taps = _sizes(product.result)
    size = math.prod(taps)
    is_window = len(taps) == _PLANE and size > 1 and channels * size <= _NARROW
    at_once = weights.windows_at_once(rows, size, gpu)
    return is_window and at_once == weights.MOST_WINDOWS


GPU_LOOPS: dict[str, Callable[[Product, Gpu], None]] = {
    "matmul": _matmul,
    "matmul-onto": _matmul,
    "convolution": _forward,
    "data-gradient": _data_gradient,
    "weight-gradient": _weight_gradient,
}


def _results(product: Product, place: Place, side_by_side: int | None) -> Results:
    return Results(product.result, product.tail, place, side_by_side)


def _axes(numbers: Sequence[int]) -> tuple[list[ConvolutionAxis], list[ConvolutionAxis]]:
    """The axes to walk along, and the actual ones.

    Where every output is of one element in its place, a position is one number, whatever the rank.
    """
    given = [ConvolutionAxis(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)]
    if all(axis.is_point for axis in given):
        return [ConvolutionAxis.points(math.prod(axis.out for axis in given))], given
    return given, given


def _matrix(buffer: Readable, transposed: bool) -> list[int]:
    sizes = _sizes(buffer)
    return [*sizes[:-2], sizes[-1], sizes[-2]] if transposed else sizes


def _sizes(buffer: Readable) -> list[int]:
    return [int(size) for size in buffer.shape]
