"""2-D convolutions in groups: which kernels compute them and their gradients.

Groups of one channel are convolved plane by plane, as a product is written once it is known what is
fused after it; others are products, group by group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, tirx

from odtc.backends.kernels.channels_last import depthwise as depthwise_last
from odtc.backends.kernels.common.operand import shape_of
from odtc.backends.kernels.convolution.grid import ConvolutionAxis
from odtc.backends.kernels.convolution.rules import marked
from odtc.backends.kernels.convolution.terms import Convolution
from odtc.backends.kernels.grouped import product
from odtc.backends.kernels.grouped.depthwise import FAMILIES
from odtc.backends.kernels.grouped.product import Grouped
from odtc.backends.kernels.norm.normalised import Normal, operands_of
from odtc.backends.kernels.pool.planes import Window, pair
from odtc.backends.kernels.product.tile import Machine
from odtc.core.ir.layouts import LAST, SECOND
from odtc.core.ir.relax_calls import layout_of
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

CONV, TRANSPOSED = "relax.nn.conv2d", "relax.nn.conv2d_transpose"


@dataclass(frozen=True)
class GroupedProduct:
    """One of the three products of a convolution.

    Attributes:
        family: which one it is.
        roles: where the shapes of image, weight and output are among first and second operand and
            result.
        grouped: makes the kernel for groups of several channels.
        last: makes it for groups of one channel where channels are last.
    """

    family: str
    roles: tuple[int, int, int]
    grouped: Callable[..., tirx.PrimFunc]
    last: Callable[..., tirx.PrimFunc]


_FORMS = {
    CONV: GroupedProduct("convolution", (0, 1, 2), product.forward, depthwise_last.forward),
    TRANSPOSED: GroupedProduct(
        "data-gradient", (2, 1, 0), product.data_gradient, depthwise_last.data_gradient
    ),
    grouped_weight_gradient.name: GroupedProduct(
        "weight-gradient",
        (0, 2, 1),
        product.grouped_weight_gradient,
        depthwise_last.weight_gradient,
    ),
}


def grouped_rules(rules: Mapping[str, Rule], machine: Machine) -> dict[str, Rule]:
    """Legalisation rules by operator: `rules`, with those for groups in front of them."""

    def rule(name: str, form: GroupedProduct) -> Rule:
        def lower(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            operands, normal = operands_of(builder, call.args)
            dtypes = [str(operand.ty.dtype) for operand in operands if operand.ty.ndim > 1]
            kernel = None
            if is_grouped(call):
                kernel = _kernel(form, call, machine, operands, dtypes, normal)
            elif is_depthwise_last(call):
                kernel = _kernel_last(form, call, machine.lanes, dtypes)
            if kernel is None:
                otherwise = rules.get(name) or call.op.get_attr("FLegalize")
                return otherwise(builder, call)
            variable = builder.add_func(kernel, "grouped")
            return relax.call_tir(variable, relax.Tuple(operands), call.ty)

        return lower

    return {**rules, **{name: rule(name, form) for name, form in _FORMS.items()}}


def is_grouped(call: relax.Call) -> bool:
    """Whether a convolution has groups, and the layout that exporters write."""
    is_ours = call.op.name == grouped_weight_gradient.name
    layout = layout_of(call) if is_ours else str(call.attrs["data_layout"])
    return int(call.attrs["groups"]) > 1 and layout == SECOND and call.ty.dtype == "float32"


def is_depthwise_last(call: relax.Call) -> bool:
    """Whether a convolution has groups of one channel, and the channels of its images last."""
    if call.op.name == grouped_weight_gradient.name:
        return layout_of(call) == LAST
    return str(call.attrs["data_layout"]) == LAST and int(call.attrs["groups"]) > 1


def _kernel_last(
    form: GroupedProduct, call: relax.Call, lanes: int, dtypes: Sequence[str]
) -> tirx.PrimFunc:
    """The kernel for groups of one channel and one filter, with channels last."""
    shapes = [*(shape_of(argument) for argument in call.args), shape_of(call)]
    image, weight, out = (shapes[role] for role in form.roles)
    steps = (pair(call.attrs[key]) for key in ("strides", "dilation", "padding"))
    window = Window(pair(image[1:]), pair(out[1:]), pair(weight[2:]), *steps)
    return form.last(image[0], image[-1], window, lanes, *dtypes)


def _kernel(
    form: GroupedProduct,
    call: relax.Call,
    machine: Machine,
    operands: Sequence[relax.Expr],
    dtypes: Sequence[str],
    normal: Normal | None,
) -> tirx.PrimFunc | None:
    """The kernel for a convolution in groups; None where there is none."""
    shapes = [*(shape_of(argument) for argument in call.args), shape_of(call)]
    image, weight, out = (shapes[role] for role in form.roles)
    groups = int(call.attrs["groups"])
    stride, dilation, pad = (pair(call.attrs[key]) for key in ("strides", "dilation", "padding"))
    window = Window(pair(image[2:]), pair(out[2:]), pair(weight[2:]), stride, dilation, pad)
    if weight[1] == 1 and window.is_small:
        plain = Convolution(form.family, shapes, stride, dilation, pad, groups)
        return marked(plain, FAMILIES[form.family], operands, normal)
    if call.op.name == TRANSPOSED and any(
        step > 1 and gap > 1 for step, gap in zip(stride, dilation, strict=True)
    ):
        return None
    rows, columns = zip(*(image[2:], weight[2:], stride, dilation, pad, out[2:]), strict=True)
    axes = (ConvolutionAxis(*rows), ConvolutionAxis(*columns))
    grouped = Grouped(image[0], groups, image[1] // groups, out[1] // groups, axes)
    # The gradient of the data reads no image.
    return form.grouped(grouped, machine, *dtypes, *((normal,) if normal else ()))
