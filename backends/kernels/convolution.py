"""Convolutions of any rank and their two gradients, as products over a staged image.

After autodiff a step holds three forms: the convolution itself, the gradient of its data as a
transposed convolution, and the gradient of its weights as a convolution of the data by the output's
gradient in the layout `CNHW`. Each becomes a kernel that says what it computes, element by element,
with a mark that names its family; elementwise operators are fused behind it, and then
`backends/kernels/convolution_loops.py` writes its loops. What is no plain convolution (groups,
other layouts) keeps TVM's own kernel.
"""

import math
from collections.abc import Callable, Sequence

from tvm import ir, relax, te, tirx

from odtc.backends.kernels.grid import Axis
from odtc.backends.kernels.operand import placeholder, shape_of, stored
from odtc.core.kernel_marks import FUSABLE, OPAQUE, PATTERN, PRODUCT

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
# The sum at an element of the result, given the operands, the axes, that element and the terms.
Term = Callable[[list[te.Tensor], list[Axis], Sequence[ir.Expr], Sequence[ir.Expr]], ir.Expr]

CONVOLUTIONS = ("relax.nn.conv2d", "relax.nn.conv3d")
TRANSPOSED = ("relax.nn.conv2d_transpose", "relax.nn.conv3d_transpose")


def convolution_rules() -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    rules = dict.fromkeys(CONVOLUTIONS, _convolution) | dict.fromkeys(TRANSPOSED, _transposed)
    return {name: _rule(find) for name, find in rules.items()}


def _rule(find: Callable[[relax.Call], str | None]) -> Rule:
    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        family = find(call) if call.ty.dtype == "float32" else None
        if family is None:
            return call.op.get_attr("FLegalize")(builder, call)
        axes = _axes(family, call)
        operands = [stored(builder, argument) for argument in call.args]
        kernel = _kernel(family, operands, axes, shape_of(call))
        name = builder.add_func(kernel, family.replace("-", "_"))
        return relax.call_tir(name, relax.Tuple(operands), call.ty)

    return rule


def _convolution(call: relax.Call) -> str | None:
    """The family of a convolution, or None."""
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    return _FAMILIES.get(layouts) if int(attrs.groups) == 1 else None


def _transposed(call: relax.Call) -> str | None:
    """The family of a transposed convolution, or None."""
    attrs = call.attrs
    steps = zip(attrs.strides, attrs.dilation, strict=True)
    plain = int(attrs.groups) == 1 and str(attrs.data_layout) in ("NCHW", "NCDHW")
    return "data-gradient" if plain and all(1 in map(int, each) for each in steps) else None


# (data, kernel, output) layouts of a convolution to its family.
_FAMILIES = {
    ("NCHW", "OIHW", "NCHW"): "convolution",
    ("CNHW", "IOHW", "CNHW"): "weight-gradient",
    ("NCDHW", "OIDHW", "NCDHW"): "convolution",
    ("CNDHW", "IODHW", "CNDHW"): "weight-gradient",
}


def _axes(family: str, call: relax.Call) -> list[Axis]:
    """The spatial axes, as those of the convolution forward."""
    operands, result = [shape_of(argument) for argument in call.args], shape_of(call)
    image, kernel, out = {
        "convolution": (operands[0], operands[1], result),
        "data-gradient": (result, operands[1], operands[0]),
        "weight-gradient": (operands[0], result, operands[1]),
    }[family]
    strides, dilations, pads = (
        [int(value) for value in values]
        for values in (call.attrs.strides, call.attrs.dilation, call.attrs.padding)
    )
    if family == "weight-gradient":
        # It is written as a convolution whose window steps by the dilation.
        strides, dilations = dilations, strides
    steps = zip(image[2:], kernel[2:], strides, dilations, pads, out[2:], strict=False)
    return [Axis(*numbers) for numbers in steps]


def _forward(
    operands: list[te.Tensor], axes: list[Axis], at: Sequence[ir.Expr], k: Sequence[ir.Expr]
) -> ir.Expr:
    """`y[n, m, o] = sum over c, t of x[n, c, o * stride + t * dilation - pad] * w[m, c, t]`."""
    (x, w), (n, m, *o), (c, *t) = operands, at, k
    return inside(x, n, c, positions(axes, o, t)) * load(w, m, c, *t)


def _data_gradient(
    operands: list[te.Tensor], axes: list[Axis], at: Sequence[ir.Expr], k: Sequence[ir.Expr]
) -> ir.Expr:
    """`dx[n, c, i] = sum over m, t of dy[n, m, (i + pad - t * dilation) / stride] * w[m, c, t]`."""
    (dy, w), (n, c, *i), (m, *t) = operands, at, k
    steps = [a.pad + x - tap * a.dilation for a, x, tap in zip(axes, i, t, strict=True)]
    hits = [step % a.stride == 0 for a, step in zip(axes, steps, strict=True)]
    source = [step // a.stride for a, step in zip(axes, steps, strict=True)]
    return inside(dy, n, m, source, hits) * load(w, m, c, *t)


def _weight_gradient(
    operands: list[te.Tensor], axes: list[Axis], at: Sequence[ir.Expr], k: Sequence[ir.Expr]
) -> ir.Expr:
    """`dw[m, c, t] = sum over n, o of x[n, c, o * stride + t * dilation - pad] * dy[n, m, o]`."""
    (x, dy), (m, c, *t), (n, *o) = operands, at, k
    return inside(x, n, c, positions(axes, o, t)) * load(dy, n, m, *o)


_TERMS: dict[str, Term] = {
    "convolution": _forward,
    "data-gradient": _data_gradient,
    "weight-gradient": _weight_gradient,
}


def _kernel(
    family: str, operands: Sequence[relax.Expr], axes: list[Axis], result: Sequence[int]
) -> tirx.PrimFunc:
    """The kernel as one block, which says what it computes, and its mark."""
    first, second = (shape_of(operand) for operand in operands)
    sums = {
        "convolution": second[1:],
        "data-gradient": [second[0], *second[2:]],
        "weight-gradient": [first[0], *(axis.out for axis in axes)],
    }[family]
    tensors = [placeholder(operand, f"arg{i}") for i, operand in enumerate(operands)]
    terms = [te.reduce_axis((0, tirx.const(size, "int64")), f"k{i}") for i, size in enumerate(sums)]
    block = te.compute(
        [tirx.const(size, "int64") for size in result],
        lambda *at: te.sum(_TERMS[family](tensors, axes, at, terms), axis=terms),
        name="product",
        attrs={PRODUCT: [family, *(number for axis in axes for number in axis.numbers)]},
    )
    function = te.create_prim_func([*tensors, block]).without_attr("global_symbol")
    # The sums of the weights' gradient are stored transposed, in whole vectors; what single
    # positions are read by mostly spreads them over an image, which is no tail.
    is_alone = family == "weight-gradient" or math.prod(result[2:]) == 1
    return function.with_attr(PATTERN, OPAQUE if is_alone else FUSABLE)


def positions(axes: list[Axis], o: Sequence[ir.Expr], t: Sequence[ir.Expr]) -> list[ir.Expr]:
    """Where in the image the taps of an output read."""
    return [
        position * axis.stride + tap * axis.dilation - axis.pad
        for axis, position, tap in zip(axes, o, t, strict=True)
    ]


def inside(
    x: te.Tensor,
    n: ir.Expr,
    channel: ir.Expr,
    at: list[ir.Expr],
    conditions: Sequence[ir.Expr] = (),
) -> ir.Expr:
    """`x[n, channel, *at]` where `at` is inside and the conditions hold, else zero."""
    sizes = [int(size) for size in x.shape[2:]]
    bounds = [
        test for axis, size in zip(at, sizes, strict=True) for test in (axis >= 0, axis < size)
    ]
    safe = [tirx.max(0, tirx.min(axis, size - 1)) for axis, size in zip(at, sizes, strict=True)]
    return tirx.if_then_else(
        tirx.all(*bounds, *conditions), load(x, n, channel, *safe), tirx.const(0, "float32")
    )


def load(tensor: te.Tensor, *index: ir.Expr) -> ir.Expr:
    """An element as float32, whatever it is stored in."""
    return tensor[index].astype("float32")
