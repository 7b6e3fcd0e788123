"""The gradient of the weight of a 2-D convolution in groups.

Relax has no convolution that sums over the samples and keeps the groups apart, except for one of
data with samples and channels swapped, which costs a copy.
"""

from tvm import ir, relax, te, tirx

from odtc.core.ir.kernel_marks import GROUPED_WEIGHT_GRADIENT
from odtc.core.ir.layouts import LAST
from odtc.core.ir.relax_calls import layout_of
from odtc.frontend.relax_ops.define import define


def _kernel(image: te.Tensor, grad: te.Tensor, **attributes) -> te.Tensor:
    """The sum over samples and steps of the output's adjoint times what the window read there."""
    groups, *rest = (
        attributes["groups"],
        *(attributes[key] for key in ("window", "strides", "padding", "dilation")),
    )
    window, strides, padding, dilation = ([int(v) for v in values] for values in rest)
    samples, channels, *sizes = image.shape
    _, filters, *steps = grad.shape
    width, results = channels // groups, filters // groups
    n = te.reduce_axis((0, samples), "n")
    walk = [te.reduce_axis((0, count), "p") for count in steps]

    def term(o: ir.Expr, i: ir.Expr, *tap: ir.Expr) -> ir.Expr:
        at = [
            p * strides[axis] + tap[axis] * dilation[axis] - padding[axis]
            for axis, p in enumerate(walk)
        ]
        inside = [test for a, size in zip(at, sizes, strict=True) for test in (a >= 0, a < size)]
        read = image(n, o // results * width + i, *at)
        zero = tirx.const(0, image.dtype)
        return te.sum(
            tirx.if_then_else(tirx.all(*inside), read, zero) * grad(n, o, *walk), axis=[n, *walk]
        )

    return te.compute((filters, width, *window), term, "grouped_weight_gradient")


def _infer(call: relax.Call) -> relax.Type:
    image, grad = (argument.ty for argument in call.args)
    groups = int(call.attrs["groups"])
    window = [int(size) for size in call.attrs["window"]]
    channels = -1 if layout_of(call) == LAST else 1
    shape = [int(grad.shape[channels]), int(image.shape[channels]) // groups, *window]
    return relax.TensorType(shape, image.dtype)


# Of the image and the output's adjoint, with the attributes groups, window, strides, padding (in
# front) and dilation; and layout, where that is not NCHW.
grouped_weight_gradient = define(
    GROUPED_WEIGHT_GRADIENT.removeprefix("odtc."), _kernel, infer=_infer, arity=2
)
