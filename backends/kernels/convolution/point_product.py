"""Convolutions of one tap, and the gradients of their data, as products of packed matrices.

Every output is of one element of the image, in its place or `stride` steps from the one before. So
the image is a matrix of channels by positions, and no copy with zeros around it is needed. Where
positions are steps apart, the product is of a copy that has them side by side, or is kept so until
whole lines of the image's gradient are written.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import index, load, unflatten
from odtc.backends.kernels.common.vectors import Index, each_block
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.product.fused import Product
from odtc.backends.kernels.product.packed import LeftOperand, is_worth_packing, packed_product
from odtc.backends.kernels.product.panel import ProductSizes, collides
from odtc.backends.kernels.product.panels import Panels, Read, Results
from odtc.backends.kernels.product.tile import Machine


def is_point_product(
    axes: Sequence[ConvolutionAxis], sizes: ProductSizes, machine: Machine
) -> bool:
    """Whether a convolution, or the gradient of its data, is written as such a product."""
    if not all(
        axis.kernel == 1 and axis.pad == 0 and (axis.out - 1) * axis.stride < axis.size
        for axis in axes
    ):
        return False
    (packed,) = machine.decide("packed", [(0,), (1,)], (int(is_worth_packing(sizes)),))
    return bool(packed)


def point_forward(
    product: Product, axes: Sequence[ConvolutionAxis], sizes: ProductSizes, machine: Machine
) -> None:
    """Emits `y[n, m, o] = sum over c of x[n, c, o * stride] * w[m, c]`."""
    x, w = product.operands
    tap = [index(0) for _ in axes]

    def image(n: ir.Expr, c: ir.Expr, p: ir.Expr) -> ir.Expr:
        return load(x, [n, c, *_flat(axes, p)])

    if not all(axis.is_point for axis in axes):
        image = _side_by_side(x, axes)
    packed_product(
        sizes,
        LeftOperand(
            lambda _, m, c: load(w, [m, c, *tap]), True, collides(sizes.depth), shared=True
        ),
        Panels(image, True),
        Results(
            lambda n, m, p, value: product.store([n, m, *_output(axes, p)], value),
            lambda n, m, p: product.ahead([n, m, *_output(axes, p)]),
        ),
        machine,
        _dtype(sizes, machine),
    )


def point_data_gradient(
    product: Product, axes: Sequence[ConvolutionAxis], sizes: ProductSizes, machine: Machine
) -> None:
    """Emits `dx[n, c, o * stride] = sum over m of dy[n, m, o] * w[m, c]`, with zeros between."""
    dy, w = product.operands
    tap = [index(0) for _ in axes]
    is_dense = all(axis.is_point for axis in axes)
    results = Results(
        lambda n, c, p, value: product.store([n, c, *_output(axes, p)], value),
        lambda n, c, p: product.ahead([n, c, *_output(axes, p)]),
    )
    kept = None
    if not is_dense:
        kept = T.sblock_alloc_buffer((sizes.batch, sizes.rows, sizes.columns), "float32")
        results = Results(lambda n, c, p, value: T.buffer_store(kept, value, [n, c, p]), _nothing)
    packed_product(
        sizes,
        LeftOperand(lambda _, c, m: load(w, [m, c, *tap]), False, shared=True),
        Panels(lambda n, m, p: load(dy, [n, m, *_flat(axes, p)]), True),
        results,
        machine,
        _dtype(sizes, machine),
    )
    if kept is not None:
        _spread(kept, product, axes, machine.lanes)


def _side_by_side(x: tirx.Buffer, axes: Sequence[ConvolutionAxis]) -> Read:
    """Emits a copy of the positions that have outputs; returns what reads it."""
    batch, channels, *_ = (int(size) for size in x.shape)
    outs = [axis.out for axis in axes]
    copy = T.sblock_alloc_buffer((batch, channels, math.prod(outs)), "float32")
    with T.parallel(index(batch * channels)) as task:
        n, c = unflatten(task, (batch, channels))
        with T.grid(*outs) as at:
            o = at if isinstance(at, Sequence) else [at]
            source = [position * axis.stride for position, axis in zip(o, axes, strict=True)]
            T.buffer_store(copy, load(x, [n, c, *source]), [n, c, _position(axes, o)])
    return lambda n, c, p: tirx.BufferLoad(copy, [n, c, p])


def _spread(
    kept: tirx.Buffer, product: Product, axes: Sequence[ConvolutionAxis], lanes: int
) -> None:
    """Emits the stores of whole lines of the image: products in their places, zeros between."""
    batch, channels, *image = (int(size) for size in product.result.shape)
    zero, last = tirx.const(0.0, "float32"), axes[-1]
    with T.parallel(index(batch * channels)) as task:
        n, c = unflatten(task, (batch, channels))
        line = T.sblock_alloc_buffer((last.size,), "float32")
        with T.serial(last.size) as at:
            T.buffer_store(line, zero, [at])
        with T.grid(1, *image[:-1]) as (_, *at):
            steps = [x // axis.stride for x, axis in zip(at, axes, strict=False)]
            has_products = [
                tirx.all(x == o * axis.stride, o < axis.out)
                for x, o, axis in zip(at, steps, axes, strict=False)
            ]

            def put(of: Callable[[ir.Expr], ir.Expr], at: Sequence[ir.Expr] = at) -> None:
                def vector(begin: Index, count: int) -> None:
                    with T.vectorized(count) as lane:
                        product.store([n, c, *at, begin + lane], of(begin + lane))

                each_block(last.size, lanes, vector)

            with T.If(tirx.all(tirx.const(True, "bool"), *has_products)):
                with T.Then():
                    with T.serial(last.out) as o:
                        value = tirx.BufferLoad(kept, [n, c, _position(axes, [*steps, o])])
                        T.buffer_store(line, value, [o * last.stride])
                    put(lambda x: tirx.BufferLoad(line, [x]))
                with T.Else():
                    put(lambda _: zero)


def _nothing(*_: ir.Expr) -> None:
    """Prefetches nothing, as it would gain nothing for a dense workspace."""


def _position(axes: Sequence[ConvolutionAxis], at: Sequence[ir.Expr]) -> ir.Expr:
    """The number of an output among all of them."""
    position = index(0)
    for axis, o in zip(axes, at, strict=True):
        position = position * axis.out + o
    return position


def _flat(axes: Sequence[ConvolutionAxis], p: ir.Expr) -> list[ir.Expr]:
    """The index of a dense tensor, where the last one counts through all axes: may be a vector."""
    return [*(index(0) for _ in axes[1:]), p]


def _output(axes: Sequence[ConvolutionAxis], p: ir.Expr) -> list[ir.Expr]:
    """The index of an output, by axis."""
    return unflatten(p, [axis.out for axis in axes])


def _dtype(sizes: ProductSizes, machine: Machine) -> str:
    return machine.dtype(sizes.depth, sizes.rows, sizes.batch * sizes.columns)
