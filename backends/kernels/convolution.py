"""2-D and 3-D convolutions and their two gradients as packed matrix products.

After autodiff a step holds three forms: the convolution itself, the gradient of its data as a
transposed convolution, and the gradient of its weights as a convolution of the data by the output's
gradient in the layout `CNHW`. Each is one product with `k` running over channel and kernel
position. What is no plain convolution (groups, other layouts) keeps TVM's own kernel.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.operand import placeholder, shape_of, stored
from odtc.backends.kernels.packed_gemm import Machine, gradient_kernel, product_kernel

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

CONVOLUTIONS = ("relax.nn.conv2d", "relax.nn.conv3d")
TRANSPOSED = ("relax.nn.conv2d_transpose", "relax.nn.conv3d_transpose")


@dataclass(frozen=True)
class Window:
    """How a convolution walks over its image, per axis, the outermost first.

    Attributes:
        kernel: sizes of the kernel.
        stride: steps of the window.
        dilation: steps inside the window.
        pad: zeros in front of the image.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[int, ...]

    def split(self, k: ir.Expr) -> tuple[ir.Expr, ...]:
        """Channel and position in the kernel for a flat index."""
        return (k // math.prod(self.kernel), *unflatten(k % math.prod(self.kernel), self.kernel))


def unflatten(flat: ir.Expr, sizes: Sequence[int]) -> list[ir.Expr]:
    """Indices of an element of a dense tensor from its position in memory."""
    strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    inner = [flat if axis == 0 else flat % strides[axis - 1] for axis in range(len(sizes))]
    return [
        index if stride == 1 else index // stride
        for index, stride in zip(inner, strides, strict=True)
    ]


def convolution_rules(machine: Machine) -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""

    def rule(kernel_of: Callable[[relax.Call], Make | None]) -> Rule:
        return lambda builder, call: _lower(builder, call, machine, kernel_of(call))

    plain, transposed = rule(_conv), rule(_transpose)
    return {name: plain for name in CONVOLUTIONS} | {name: transposed for name in TRANSPOSED}


# From the call and the placeholders of its operands, as they are stored.
Make = Callable[[relax.Call, list[te.Tensor], Machine], tirx.PrimFunc]


def _lower(
    builder: relax.BlockBuilder, call: relax.Call, machine: Machine, make: Make | None
) -> relax.Expr:
    shape = shape_of(call)
    inner = math.prod(shape[2:])
    if make is None or (2 * inner < machine.lanes and make is not weight_gradient):
        return call.op.get_attr("FLegalize")(builder, call)
    operands = [stored(builder, argument) for argument in call.args]
    placeholders = [placeholder(operand, f"arg{i}") for i, operand in enumerate(operands)]
    kernel = builder.add_func(make(call, placeholders, machine), make.__name__)
    flat = [shape[0], shape[1] * inner] if make is weight_gradient else [*shape[:2], inner]
    result = relax.call_tir(kernel, relax.Tuple(operands), relax.TensorType(flat, "float32"))
    return relax.op.reshape(builder.emit(result), shape)


def _conv(call: relax.Call) -> Make | None:
    """The kernel for a convolution, or None."""
    attrs = call.attrs
    if int(attrs.groups) != 1 or call.ty.dtype != "float32":
        return None
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    return _CONV_KERNELS.get(layouts)


def _transpose(call: relax.Call) -> Make | None:
    """The kernel for a transposed convolution, or None."""
    attrs = call.attrs
    plain = int(attrs.groups) == 1 and str(attrs.data_layout) in ("NCHW", "NCDHW")
    return data_gradient if plain and call.ty.dtype == "float32" else None


def forward(call: relax.Call, operands: list[te.Tensor], machine: Machine) -> tirx.PrimFunc:
    """`y[n, m, p] = sum w[m, c, i] * x[n, c, p * stride + i * dilation - pad]`."""
    x, w = operands
    out_channels, _, *kernel = shape_of(call.args[1])
    batch, _, *out = shape_of(call)
    window = _window(call, kernel)
    depth = shape_of(call.args[1])[1] * math.prod(kernel)
    return product_kernel(
        [x, w],
        (batch, out_channels, depth, math.prod(out)),
        lambda m, k: _load(w, m, *window.split(k)),
        lambda n, k, p: _image(x, n, k, unflatten(p, out), window),
        machine,
    )


def data_gradient(call: relax.Call, operands: list[te.Tensor], machine: Machine) -> tirx.PrimFunc:
    """`dx[n, c, p] = sum dy[n, m, (p + pad - i * dilation) / stride] * w[m, c, i]`."""
    dy, w = operands
    batch, channels, *image = shape_of(call)
    in_channels, _, *kernel = shape_of(call.args[1])
    window = _window(call, kernel)

    def weight(c: ir.Expr, k: ir.Expr) -> ir.Expr:
        m, *at = window.split(k)
        return _load(w, m, c, *at)

    def gradient(n: ir.Expr, k: ir.Expr, p: ir.Expr) -> ir.Expr:
        m, *at = window.split(k)
        steps = [
            axis + window.pad[d] - at[d] * window.dilation[d]
            for d, axis in enumerate(unflatten(p, image))
        ]
        hits = [
            step % stride == 0
            for step, stride in zip(steps, window.stride, strict=True)
            if stride != 1
        ]
        source = [step // stride for step, stride in zip(steps, window.stride, strict=True)]
        return _inside(dy, n, m, source, hits)

    return product_kernel(
        [dy, w],
        (batch, channels, in_channels * math.prod(kernel), math.prod(image)),
        weight,
        gradient,
        machine,
    )


def weight_gradient(call: relax.Call, operands: list[te.Tensor], machine: Machine) -> tirx.PrimFunc:
    """`dw[m, c, i] = sum dy[n, m, p] * x[n, c, p * stride + i * dilation - pad]`."""
    x, dy = operands
    batch, out_channels, *out = shape_of(call.args[1])
    _, channels, *kernel = shape_of(call)
    # The gradient is written as a convolution whose window steps by the dilation, and back.
    swapped = _window(call, kernel)
    window = Window(swapped.kernel, swapped.dilation, swapped.stride, swapped.pad)
    return gradient_kernel(
        [x, dy],
        (batch, out_channels, channels * math.prod(kernel), math.prod(out)),
        lambda n, m, p: _load(dy, n, m, *unflatten(p, out)),
        lambda n, k, p: _image(x, n, k, unflatten(p, out), window),
        machine,
    )


# (data, kernel, output) layouts of a convolution to its kernel.
_CONV_KERNELS: dict[tuple[str, str, str], Make] = {
    ("NCHW", "OIHW", "NCHW"): forward,
    ("CNHW", "IOHW", "CNHW"): weight_gradient,
    ("NCDHW", "OIDHW", "NCDHW"): forward,
    ("CNDHW", "IODHW", "CNDHW"): weight_gradient,
}


def _image(
    x: te.Tensor, n: ir.Expr, k: ir.Expr, position: Sequence[ir.Expr], window: Window
) -> ir.Expr:
    """The image under kernel position `k` for one output position; zero in the padding."""
    channel, *at = window.split(k)
    source = [
        axis * window.stride[d] + at[d] * window.dilation[d] - window.pad[d]
        for d, axis in enumerate(position)
    ]
    return _inside(x, n, channel, source, [])


def _inside(
    x: te.Tensor, n: ir.Expr, channel: ir.Expr, at: list[ir.Expr], conditions: list[ir.Expr]
) -> ir.Expr:
    """`x[n, channel, *at]` where `at` is inside and the conditions hold, else zero."""
    sizes = [int(size) for size in x.shape[2:]]
    bounds = [
        test for axis, size in zip(at, sizes, strict=True) for test in (axis >= 0, axis < size)
    ]
    safe = [tirx.max(0, tirx.min(axis, size - 1)) for axis, size in zip(at, sizes, strict=True)]
    return tirx.if_then_else(
        tirx.all(*bounds, *conditions), _load(x, n, channel, *safe), tirx.const(0, "float32")
    )


def _load(tensor: te.Tensor, *index: ir.Expr) -> ir.Expr:
    """An element as float32, whatever it is stored in."""
    return tensor[index].astype("float32")


def _window(call: relax.Call, kernel: list[int]) -> Window:
    attrs = call.attrs
    stride, dilation, pad = (
        tuple(int(value) for value in list(values)[: len(kernel)])
        for values in (attrs.strides, attrs.dilation, attrs.padding)
    )
    return Window(tuple(kernel), stride, dilation, pad)
