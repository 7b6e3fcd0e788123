"""Convolutions of one tap, and the gradients of their data, as products of packed matrices.

Every output is of one element of the image, in its place or `stride` steps from the one before. So
the image is a matrix of channels by positions, and no copy with zeros around it is needed.
"""

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.fused import Product
from odtc.backends.kernels.grid import Axis
from odtc.backends.kernels.packed_product import Left, is_worth_packing, packed_product
from odtc.backends.kernels.panel_product import Sizes, collides
from odtc.backends.kernels.panels import Panels, Results
from odtc.backends.kernels.places import index, load, unflatten
from odtc.backends.kernels.tile import Machine


def is_point_product(axes: Sequence[Axis], sizes: Sizes) -> bool:
    """Whether a convolution, or the gradient of its data, is worth writing as such a product."""
    return is_worth_packing(sizes) and all(
        axis.kernel == 1 and axis.pad == 0 and (axis.out - 1) * axis.stride < axis.size
        for axis in axes
    )


def point_forward(product: Product, axes: Sequence[Axis], sizes: Sizes, machine: Machine) -> None:
    """Emits `y[n, m, o] = sum over c of x[n, c, o * stride] * w[m, c]`."""
    x, w = product.operands
    tap = [index(0) for _ in axes]
    is_dense = all(axis.is_point for axis in axes)
    source = _flat if is_dense else _source
    packed_product(
        sizes,
        Left(lambda _, m, c: load(w, [m, c, *tap]), True, collides(sizes.depth), shared=True),
        Panels(lambda n, c, p: load(x, [n, c, *source(axes, p)]), is_dense, is_apart=not is_dense),
        Results(
            lambda n, m, p, value: product.store([n, m, *_output(axes, p)], value),
            lambda n, m, p: product.ahead([n, m, *_output(axes, p)]),
        ),
        machine,
        _dtype(sizes, machine),
    )


def point_data_gradient(
    product: Product, axes: Sequence[Axis], sizes: Sizes, machine: Machine
) -> None:
    """Emits `dx[n, c, o * stride] = sum over m of dy[n, m, o] * w[m, c]`, with zeros between."""
    dy, w = product.operands
    tap = [index(0) for _ in axes]
    is_dense = all(axis.is_point for axis in axes)
    if not is_dense:
        _store_zeros(product)
    packed_product(
        sizes,
        Left(lambda _, c, m: load(w, [m, c, *tap]), False, shared=True),
        Panels(lambda n, m, p: load(dy, [n, m, *_flat(axes, p)]), True),
        Results(
            lambda n, c, p, value: product.store([n, c, *_source(axes, p)], value),
            lambda n, c, p: product.ahead([n, c, *_source(axes, p)]),
            apart=not is_dense,
        ),
        machine,
        _dtype(sizes, machine),
    )


def _store_zeros(product: Product) -> None:
    """Emits what becomes of zeros, everywhere: the product comes over some of them."""
    batch, channels, *image = (int(size) for size in product.result.shape)
    with T.parallel(index(batch * channels)) as task:
        n, c = unflatten(task, (batch, channels))
        with T.grid(1, *image) as (_, *at):
            product.store([n, c, *at], tirx.const(0.0, "float32"))


def _flat(axes: Sequence[Axis], p: ir.Expr) -> list[ir.Expr]:
    """The index of a dense tensor, where the last one counts through all axes: may be a vector."""
    return [*(index(0) for _ in axes[1:]), p]


def _output(axes: Sequence[Axis], p: ir.Expr) -> list[ir.Expr]:
    """The index of an output, by axis."""
    return unflatten(p, [axis.out for axis in axes])


def _source(axes: Sequence[Axis], p: ir.Expr) -> list[ir.Expr]:
    """The index of what an output is of, by axis."""
    return [o * axis.stride for axis, o in zip(axes, _output(axes, p), strict=True)]


def _dtype(sizes: Sizes, machine: Machine) -> str:
    return machine.dtype(sizes.depth, sizes.rows, sizes.batch * sizes.columns)
