"""The loops of a convolution's kernel, and of its gradients'."""

import itertools
import math
from collections.abc import Callable, Sequence

from tvm import ir, tirx
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.fused import Tail
from odtc.backends.kernels.grid import Axis
from odtc.backends.kernels.panel_product import Panels, Sizes, fits_dense, panel_product
from odtc.backends.kernels.shifted_product import Shape, staged_product
from odtc.backends.kernels.tile import Machine, index
from odtc.backends.kernels.weight_gradient import weight_gradient

# Emits the loops, from the numbers of the mark, the operands, the result and its tail.
Loops = Callable[[Sequence[int], Sequence[tirx.Buffer], tirx.Buffer, Tail, Machine], None]


def _forward(
    numbers: Sequence[int],
    operands: Sequence[tirx.Buffer],
    y: tirx.Buffer,
    tail: Tail,
    machine: Machine,
) -> None:
    x, w = operands
    axes, (batch, channels), rows = _axes(numbers), _sizes(x)[:2], _sizes(w)[0]
    positions = math.prod(axis.out for axis in axes)
    is_dense = all(axis.is_point for axis in axes) and str(x.dtype) == "float32"
    if is_dense and fits_dense(rows, positions, machine):
        outs = [axis.out for axis in axes]
        panel_product(
            Sizes(batch, rows, channels, positions),
            lambda _, m, c: load(w, [m, c, *map(index, [0] * len(axes))]),
            Panels(lambda n, c, p: load(x, [n, c, *map(index, [0] * len(axes[1:])), p]), True),
            lambda n, m, p, value: _put(y, tail, [n, m, *unflatten(p, outs)], value),
            machine,
        )
        return
    staged_product(
        Shape(batch, channels, rows),
        [[axis.forward() for axis in axes]],
        lambda n, c, *at: load(x, [n, c, *at]),
        lambda m, c, *taps: load(w, [m, c, *taps]),
        lambda n, m, at, value: _put(y, tail, [n, m, *at], value),
        machine,
    )


def _data_gradient(
    numbers: Sequence[int],
    operands: Sequence[tirx.Buffer],
    dx: tirx.Buffer,
    tail: Tail,
    machine: Machine,
) -> None:
    dy, w = operands
    axes, (batch, channels) = _axes(numbers), _sizes(dy)[:2]
    rows = _sizes(w)[1]
    positions = math.prod(axis.size for axis in axes)
    is_dense = all(axis.is_point for axis in axes) and str(dy.dtype) == "float32"
    if is_dense and fits_dense(rows, positions, machine):
        sizes = [axis.size for axis in axes]
        panel_product(
            Sizes(batch, rows, channels, positions),
            lambda _, c, m: load(w, [m, c, *map(index, [0] * len(axes))]),
            Panels(lambda n, m, p: load(dy, [n, m, *map(index, [0] * len(axes[1:])), p]), True),
            lambda n, c, p, value: _put(dx, tail, [n, c, *unflatten(p, sizes)], value),
            machine,
        )
        return
    staged_product(
        Shape(batch, channels, rows),
        list(itertools.product(*(axis.backward() for axis in axes))),
        lambda n, m, *at: load(dy, [n, m, *at]),
        lambda c, m, *taps: load(w, [m, c, *taps]),
        lambda n, c, at, value: _put(dx, tail, [n, c, *at], value),
        machine,
    )


def _weight_gradient(
    numbers: Sequence[int],
    operands: Sequence[tirx.Buffer],
    dw: tirx.Buffer,
    tail: Tail,
    machine: Machine,
) -> None:
    x, dy = operands
    axes, (batch, channels), rows = _axes(numbers), _sizes(x)[:2], _sizes(dy)[1]
    kernel = [axis.kernel for axis in axes]
    weight_gradient(
        Shape(batch, channels, rows),
        [axis.forward() for axis in axes],
        lambda n, c, *at: load(x, [n, c, *at]),
        lambda n, m, p: load(dy, [n, m, *map(index, [0] * len(axes[1:])), p]),
        lambda m, c, tap, value: _put(dw, tail, [m, c, *unflatten(tap, kernel)], value),
        machine,
    )


CONVOLUTION_LOOPS: dict[str, Loops] = {
    "convolution": _forward,
    "data-gradient": _data_gradient,
    "weight-gradient": _weight_gradient,
}


def load(buffer: tirx.Buffer, at: Sequence[ir.Expr]) -> ir.Expr:
    """An element, or a vector, as float32."""
    value = tirx.BufferLoad(buffer, list(at))
    if str(buffer.dtype) == "float32":
        return value
    lanes = max((each.lanes for each in at if isinstance(each, tirx.Ramp)), default=1)
    return value.astype("float32" if lanes == 1 else f"float32x{lanes}")


def unflatten(flat: ir.Expr, sizes: Sequence[int]) -> list[ir.Expr]:
    """Indices of an element of a dense tensor from its position in memory."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    inner = [flat if axis == 0 else flat % strides[axis - 1] for axis in range(len(sizes))]
    return [at if stride == 1 else at // stride for at, stride in zip(inner, strides, strict=True)]


def _put(buffer: tirx.Buffer, tail: Tail, at: list[ir.Expr], value: ir.Expr) -> None:
    T.buffer_store(buffer, tail(at, value), at)


def _axes(numbers: Sequence[int]) -> list[Axis]:
    return [Axis(*numbers[at : at + 6]) for at in range(0, len(numbers), 6)]


def _sizes(buffer: tirx.Buffer) -> list[int]:
    return [int(size) for size in buffer.shape]
