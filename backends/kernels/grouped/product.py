"""Convolutions in groups of several channels: for each group the product of a plain convolution."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812

from odtc.backends.kernels.common.places import Readable, index, load
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.convolution.shifted_product import staged_product
from odtc.backends.kernels.convolution.weight_gradient import weight_gradient
from odtc.backends.kernels.norm.normalised import Normal, read_operands
from odtc.backends.kernels.product.panel import collides
from odtc.backends.kernels.product.tile import Machine
from odtc.core.ir.kernel_marks import IS_SCHEDULED, OPAQUE, PATTERN


@dataclass(frozen=True)
class Grouped:
    """A convolution in groups, whichever of its three products is computed.

    Attributes:
        batch: samples.
        groups: into how many the channels are cut.
        channels: of the image, in a group.
        filters: of the output, in a group.
        axes: the spatial ones.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    axes: tuple[ConvolutionAxis, ...]

    @property
    def image(self) -> list[int]:
        """Shape of the image."""
        return [self.batch, self.groups * self.channels, *(axis.size for axis in self.axes)]

    @property
    def weight(self) -> list[int]:
        """Shape of the weight."""
        return [self.groups * self.filters, self.channels, *(axis.kernel for axis in self.axes)]

    @property
    def output(self) -> list[int]:
        """Shape of the output."""
        return [self.batch, self.groups * self.filters, *(axis.out for axis in self.axes)]


# Emits the product of a group, from the convolution, the group, the three tensors and the CPU.
Loops = Callable[[Grouped, ir.Expr, Readable, Any, tirx.Buffer, Machine], None]


def forward(
    conv: Grouped, machine: Machine, x_dtype: str, w_dtype: str, normal: Normal | None = None
) -> tirx.PrimFunc:
    """A kernel `(x, w, y)`."""
    arguments = [(conv.image, x_dtype), (conv.weight, w_dtype), (conv.output, "float32")]
    return _kernel(conv, arguments, _forward, machine, normal)


def data_gradient(conv: Grouped, machine: Machine, y_dtype: str, w_dtype: str) -> tirx.PrimFunc:
    """A kernel `(dy, w, dx)`; stride and dilation are not both more than 1."""
    arguments = [(conv.output, y_dtype), (conv.weight, w_dtype), (conv.image, "float32")]
    return _kernel(conv, arguments, _data_gradient, machine)


def grouped_weight_gradient(
    conv: Grouped, machine: Machine, x_dtype: str, y_dtype: str, normal: Normal | None = None
) -> tirx.PrimFunc:
    """A kernel `(x, dy, dw)`."""
    arguments = [(conv.image, x_dtype), (conv.output, y_dtype), (conv.weight, "float32")]
    return _kernel(conv, arguments, _weight_gradient, machine, normal)


def _kernel(
    conv: Grouped,
    arguments: Sequence[tuple[Sequence[int], str]],
    loops: Loops,
    machine: Machine,
    normal: Normal | None = None,
) -> tirx.PrimFunc:
    if normal:
        first, *others = arguments
        arguments = [*normal.arguments(*first).values(), *others]
    with IRBuilder() as builder:
        with T.prim_func(is_private=True, s_tir=True):
            T.func_attr({IS_SCHEDULED: True, PATTERN: OPAQUE, "tirx.noalias": True})
            tensors = [
                T.arg(f"arg{i}", T.buffer(shape, dtype))
                for i, (shape, dtype) in enumerate(arguments)
            ]
            with T.serial(index(conv.groups)) as group:
                first, second = read_operands(normal, tensors[:-1])
                loops(conv, group, first, second, tensors[-1], machine)
        return builder.get()


def _forward(
    conv: Grouped, g: ir.Expr, x: Readable, w: tirx.Buffer, y: tirx.Buffer, machine: Machine
) -> None:
    staged_product(
        Shape(conv.batch, conv.channels, conv.filters),
        [[axis.forward() for axis in conv.axes]],
        lambda n, c, *at: load(x, [n, g * conv.channels + c, *at]),
        lambda m, c, *taps: load(w, [g * conv.filters + m, c, *taps]),
        lambda n, m, at, value: T.buffer_store(y, value, [n, g * conv.filters + m, *at]),
        machine,
        scattered=collides(math.prod(conv.weight[1:])),
    )


def _data_gradient(
    conv: Grouped, g: ir.Expr, dy: tirx.Buffer, w: tirx.Buffer, dx: tirx.Buffer, machine: Machine
) -> None:
    staged_product(
        Shape(conv.batch, conv.filters, conv.channels),
        list(itertools.product(*(axis.backward() for axis in conv.axes))),
        lambda n, m, *at: load(dy, [n, g * conv.filters + m, *at]),
        lambda c, m, *taps: load(w, [g * conv.filters + m, c, *taps]),
        lambda n, c, at, value: T.buffer_store(dx, value, [n, g * conv.channels + c, *at]),
        machine,
        scattered=True,
    )


def _weight_gradient(
    conv: Grouped, g: ir.Expr, x: Readable, dy: tirx.Buffer, dw: tirx.Buffer, machine: Machine
) -> None:
    inner = [index(0)] * (len(conv.axes) - 1)
    weight_gradient(
        Shape(conv.batch, conv.channels, conv.filters),
        [axis.forward() for axis in conv.axes],
        lambda n, c, *at: load(x, [n, g * conv.channels + c, *at]),
        lambda n, m, p: load(dy, [n, g * conv.filters + m, *inner, p]),
        dw,
        machine,
        offset=g * conv.filters,
    )
