"""Convolutions of any rank and their two gradients, as products over a staged image.

After autodiff a step holds three forms: the convolution itself, the gradient of its data as a
transposed convolution, and the gradient of its weights as a convolution of the data by the output's
gradient in the layout `CNHW`. Each becomes a kernel that says what it computes, element by element,
with a mark that names its family; elementwise operators are fused after it, and then
`backends/kernels/convolution/loops.py` writes its loops. What is no plain convolution (groups,
other layouts) keeps TVM's own kernel.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import relax, tirx

from odtc.backends.kernels.convolution.terms import (
    Convolution,
    channels_second,
    shapes_of,
    weight_place,
)
from odtc.backends.kernels.norm.normalised import Normal, operands_of
from odtc.core.ir.kernel_marks import FUSABLE, OPAQUE, PATTERN
from odtc.core.ir.product_marks import PRODUCT, READ_NORMALISED
from odtc.core.ir.relax_calls import operator_of

Rule = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]

CONVOLUTIONS = ("relax.nn.conv2d", "relax.nn.conv3d")
TRANSPOSED = ("relax.nn.conv2d_transpose", "relax.nn.conv3d_transpose")


def convolution_rules() -> dict[str, Rule]:
    """Legalisation rules for `relax.transform.LegalizeOps`, by operator."""
    return {name: _rule(find) for name, find in _FORM_OF.items()}


def convolution_of(call: relax.Call) -> Convolution | None:
    """Returns the convolution of a call; None where it is none of the three, or has groups."""
    find = _FORM_OF.get(operator_of(call))
    form = find(call) if find else None
    return _described(form, call) if form else None


@dataclass(frozen=True)
class ProductForm:
    """How an operator says one of the three.

    Attributes:
        family: which one it is.
        last: whether image and output have their channels last: of one tap only.
    """

    family: str
    last: bool = False


def _rule(find: Callable[[relax.Call], ProductForm | None]) -> Rule:
    def rule(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        form = find(call) if call.ty.dtype == "float32" else None
        if form is None:
            return call.op.get_attr("FLegalize")(builder, call)
        operands, normal = operands_of(builder, call.args)
        kernel = _kernel(_described(form, call), operands, normal)
        name = builder.add_func(kernel, form.family.replace("-", "_"))
        return relax.call_tir(name, relax.Tuple(operands), call.ty)

    return rule


def _convolution(call: relax.Call) -> ProductForm | None:
    """The form of a convolution, or None."""
    attrs = call.attrs
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    return _FORMS.get(layouts) if int(attrs.groups) == 1 else None


def _transposed(call: relax.Call) -> ProductForm | None:
    """The form of a transposed convolution, or None."""
    attrs = call.attrs
    steps = zip(attrs.strides, attrs.dilation, strict=True)
    plain = int(attrs.groups) == 1 and all(1 in map(int, each) for each in steps)
    return _TRANSPOSED_FORMS.get(str(attrs.data_layout)) if plain else None


# (data, kernel, output) layouts of a convolution to its form.
_FORMS = {
    ("NCHW", "OIHW", "NCHW"): ProductForm("convolution"),
    ("NHWC", "OIHW", "NHWC"): ProductForm("convolution", last=True),
    ("CNHW", "IOHW", "CNHW"): ProductForm("weight-gradient"),
    ("CHWN", "IHWO", "CNHW"): ProductForm("weight-gradient", last=True),
    ("NCDHW", "OIDHW", "NCDHW"): ProductForm("convolution"),
    ("CNDHW", "IODHW", "CNDHW"): ProductForm("weight-gradient"),
}
# Data layout of a transposed convolution to its form.
_TRANSPOSED_FORMS = {
    "NCHW": ProductForm("data-gradient"),
    "NHWC": ProductForm("data-gradient", last=True),
    "NCDHW": ProductForm("data-gradient"),
}


# Functions that find the form of a call, by operator.
_FORM_OF: dict[str, Callable[[relax.Call], ProductForm | None]] = {
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    **dict.fromkeys(TRANSPOSED, _transposed),
}


def _described(form: ProductForm, call: relax.Call) -> Convolution:
    family, shapes = form.family, shapes_of(call)
    if form.last:
        weight = weight_place(family)
        shapes = [s if at == weight else channels_second(s) for at, s in enumerate(shapes)]
    strides, dilations, pads = (
        [int(value) for value in values]
        for values in (call.attrs.strides, call.attrs.dilation, call.attrs.padding)
    )
    if family == "weight-gradient":
        # It is written as a convolution whose window steps by the dilation.
        strides, dilations = dilations, strides
    return Convolution(family, shapes, strides, dilations, pads, last=form.last)


def _kernel(
    convolution: Convolution, operands: Sequence[relax.Expr], normal: Normal | None
) -> tirx.PrimFunc:
    """The kernel as one block, with one number more in its mark where channels are last."""
    more = [1] if convolution.last else []
    return marked(convolution, convolution.family, operands, normal, more)


def marked(
    convolution: Convolution,
    family: str,
    operands: Sequence[relax.Expr],
    normal: Normal | None,
    more: Sequence[int] = (),
) -> tirx.PrimFunc:
    """A kernel as one block, which says what it computes, and its marks.

    Args:
        convolution: what it computes.
        family: what writes its loops.
        operands: the tensors that it reads.
        normal: normalisation of the first operand as it is read, if there is one.
        more: numbers of the mark, after the six of each axis.
    """
    numbers = [number for axis in convolution.axes() for number in axis.numbers]
    marks = {PRODUCT: [family, *numbers, *more]}
    if normal:
        marks[READ_NORMALISED] = normal.mark
    function = convolution.sums(operands, normal, name="product", attrs=marks)
    # The sums of the weights' gradient are stored transposed, in whole vectors; what single
    # positions are read by mostly spreads them over an image, which is no tail.
    is_point = math.prod(convolution.shapes[-1][2:]) == 1
    is_alone = convolution.family == "weight-gradient" or is_point
    return function.with_attr(PATTERN, OPAQUE if is_alone else FUSABLE)
