"""Convolutions in groups: which kernel computes them and their gradients.

Depthwise ones have kernels of their own; what is left keeps the rule that there was.
"""

from collections.abc import Callable, Mapping, Sequence

from tvm import relax, tirx

from odtc.backends.kernels import depthwise
from odtc.backends.kernels.depthwise import Depthwise
from odtc.backends.kernels.operand import shape_of, stored
from odtc.backends.kernels.planes import Walk
from odtc.core.kernel_marks import GROUPED_WEIGHT_GRADIENT

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
# From the convolution, lanes and the dtypes of the operands to the kernel.
Make = Callable[[Depthwise, int, str, str], tirx.PrimFunc]

CONV, TRANSPOSED = "relax.nn.conv2d", "relax.nn.conv2d_transpose"


def grouped_rules(rules: Mapping[str, Rule], lanes: int) -> dict[str, Rule]:
    """Legalisation rules by operator: `rules`, with those for groups in front of them."""

    def rule(name: str, make: Make) -> Rule:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            conv = depthwise_of(call, name)
            if conv is not None:
                return _emit(builder, call, make(conv, lanes, *_dtypes(builder, call)))
            otherwise = rules.get(name) or call.op.get_attr("FLegalize")
            return otherwise(builder, call)

        return lower

    return {**rules, **{name: rule(name, make) for name, make in _KERNELS.items()}}


_KERNELS: dict[str, Make] = {
    CONV: depthwise.forward,
    TRANSPOSED: depthwise.data_gradient,
    GROUPED_WEIGHT_GRADIENT: depthwise.weight_gradient,
}


def depthwise_of(call: relax.Call, name: str) -> Depthwise | None:
    """The depthwise convolution that a call belongs to, or None where it belongs to none."""
    attrs = call.attrs
    groups = int(attrs["groups"])
    image, weight, out = _roles(call, name)
    if groups == 1 or groups != image[1] or weight[1] != 1 or call.ty.dtype != "float32":
        return None
    if name != GROUPED_WEIGHT_GRADIENT and str(attrs["data_layout"]) != "NCHW":
        return None
    stride, dilation, pad = (_pair(attrs[key]) for key in ("strides", "dilation", "padding"))
    walk = Walk(_pair(image[2:]), _pair(out[2:]), _pair(weight[2:]), stride, dilation, pad)
    return Depthwise(image[0], image[1], out[1] // image[1], walk) if walk.is_small else None


def _roles(call: relax.Call, name: str) -> tuple[list[int], list[int], list[int]]:
    """Shapes of the image, the weight and the output of a convolution, from one of its products."""
    first, second = (shape_of(argument) for argument in call.args)
    result = shape_of(call)
    return {
        CONV: (first, second, result),
        TRANSPOSED: (result, second, first),
        GROUPED_WEIGHT_GRADIENT: (first, result, second),
    }[name]


def _dtypes(builder: relax.BlockBuilder, call: relax.Call) -> list[str]:
    return [str(stored(builder, argument).ty.dtype) for argument in call.args]


def _emit(builder: relax.BlockBuilder, call: relax.Call, kernel: tirx.PrimFunc) -> relax.Expr:
    name = builder.add_func(kernel, "depthwise")
    operands = [stored(builder, argument) for argument in call.args]
    return relax.call_tir(name, relax.Tuple(operands), call.ty)


def _pair(values: Sequence) -> tuple[int, int]:
    first, second = (int(value) for value in list(values)[:2])
    return first, second
