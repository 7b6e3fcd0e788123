"""The operators of a step that can run with channels last, and their forms.

Each works on images, tensors of samples, channels, rows and columns: some of what it reads, and
what it makes unless that is the gradient of a weight. Weights stay as ONNX has them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.core.ir.layouts import SECOND
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect import channels_last
from odtc.dialect.channels_last import (
    ChannelsLast,
    ints,
    is_depthwise,
    is_image,
    is_of_images,
    is_pool,
    shape_of,
)
from odtc.dialect.operator import RelaxOperator
from odtc.dialect.table import OPERATORS
from odtc.passes.layout import last_calls
from odtc.passes.layout.element_kernels import maps_elements

CALL_TIR = "relax.call_tir"
_ELEMENTWISE = tuple(
    f"relax.{name}"
    for name in (
        "add subtract multiply divide maximum minimum negative exp sqrt tanh sigmoid clip "
        "greater greater_equal less less_equal equal not_equal where astype nn.relu"
    ).split()
)


@dataclass(frozen=True)
class Rule:
    """An operator that can run with channels last.

    Attributes:
        images: places of the images among what the call reads; None for all that are.
        condition: whether a call can.
        last: the call with channels last, from it and what it reads then.
        makes_images: whether images that it makes are such, or are gradients of weights.
    """

    images: tuple[int, ...] | None
    condition: Callable[[relax.Call], bool]
    last: Callable[[relax.Call, Sequence[relax.Expr]], relax.Expr]
    makes_images: bool = True


def rule_of(call: relax.Expr, module: tvm.IRModule) -> Rule | None:
    """The rule of a call; None where it runs with channels second only."""
    if operator_of(call) == CALL_TIR:
        kernel = module[call.args[0]]
        return _KERNEL if is_elementwise_call(call) and maps_elements(kernel) else None
    rule = _RULES.get(_name(call))
    return rule if rule is not None and rule.condition(call) else None


def read_by(call: relax.Call) -> list[relax.Expr]:
    """Returns the tensors that a call reads."""
    if operator_of(call) == CALL_TIR:
        return list(call.args[1].fields)
    first = call.args[0]
    return list(first.fields) if isinstance(first, relax.Tuple) else list(call.args)


def images_of(call: relax.Call, rule: Rule) -> list[relax.Var]:
    """The images that a call reads."""
    read = read_by(call)
    if rule.images is not None:
        return [read[place] for place in rule.images]
    return [each for each in read if isinstance(each, relax.Var) and is_image(each)]


def _name(call: relax.Expr) -> str:
    """Name of an operator; a convolution that is the gradient of a weight has one of its own."""
    name = operator_of(call)
    if name == "relax.nn.conv2d" and str(call.attrs.data_layout) == "CNHW":
        return _WEIGHT_GRADIENT
    return name


_WEIGHT_GRADIENT = "weight-gradient"


def _is_convolution(call: relax.Call) -> bool:
    """Whether it has no groups, or one for each channel, and its results fill vectors."""
    attrs, weight = call.attrs, shape_of(call.args[1])
    if str(attrs.data_layout) != SECOND or call.ty.dtype != "float32":
        return False
    if int(attrs.groups) > 1:
        return is_depthwise(weight, int(attrs.groups))
    return shape_of(call)[1] >= channels_last.FEW


def _is_data_gradient(call: relax.Call) -> bool:
    steps = zip(ints(call.attrs.strides), ints(call.attrs.dilation), strict=True)
    return _is_convolution(call) and all(1 in each for each in steps)


def _is_weight_gradient(call: relax.Call) -> bool:
    is_plain = call.ty.dtype == "float32" and int(call.attrs.groups) == 1
    return is_plain and shape_of(call)[0] >= channels_last.FEW


def is_elementwise_call(call: relax.Call) -> bool:
    """Whether a call maps images, which may be broadcast, and single numbers to an image."""
    if not is_image(call) or shape_of(call)[1] < channels_last.FEW:
        return False
    images = [
        each for each in read_by(call) if isinstance(each.ty, relax.TensorType) and each.ty.ndim
    ]
    return bool(images) and all(isinstance(each, relax.Var) and is_image(each) for each in images)


def _is_of_channels(call: relax.Call) -> bool:
    """Whether a concat or a split is of the channels of images."""
    read = read_by(call)
    return (
        int(call.attrs.axis) == 1
        and all(isinstance(each, relax.Var) and is_image(each) for each in read[:1])
        and all(isinstance(each, relax.Var) for each in read)
    )


def _is_slice(call: relax.Call) -> bool:
    """Whether a slice takes neighbouring channels of images."""
    axes, _, _, *steps = [last_calls.numbers(each) for each in call.args[1:]]
    return is_of_images(call) and axes == [1] and steps in ([], [[1]])


def _is_mean(call: relax.Call) -> bool:
    return is_of_images(call) and call.attrs.axis is not None and ints(call.attrs.axis) == [2, 3]


def _is_spread(call: relax.Call) -> bool:
    """Whether a call broadcasts images, or sums them up, to images of another size."""
    return is_image(call) and is_image(call.args[0]) and shape_of(call)[1] >= channels_last.FEW


def _own(operator: RelaxOperator, said: ChannelsLast) -> Rule:
    """The rule that one of our own operators declares."""
    last = last_calls.with_layout if operator.has_layout else last_calls.as_it_is
    return Rule(said.images, said.condition, last, said.makes_images)


_RULES: Mapping[str, Rule] = {
    "relax.nn.conv2d": Rule((0,), _is_convolution, last_calls.convolution),
    "relax.nn.conv2d_transpose": Rule((0,), _is_data_gradient, last_calls.data_gradient),
    _WEIGHT_GRADIENT: Rule(
        (0, 1), _is_weight_gradient, last_calls.weight_gradient, makes_images=False
    ),
    "relax.nn.avg_pool2d": Rule((0,), is_pool, last_calls.avg_pool),
    "relax.grad.avg_pool2d_backward": Rule((0, 1), is_pool, last_calls.avg_pool_gradient),
    "relax.concat": Rule(None, _is_of_channels, last_calls.concat),
    "relax.split": Rule((0,), _is_of_channels, last_calls.split),
    "relax.strided_slice": Rule((0,), _is_slice, last_calls.strided_slice),
    "relax.mean": Rule((0,), _is_mean, last_calls.mean),
    "relax.broadcast_to": Rule((0,), _is_spread, last_calls.to_shape(R.broadcast_to)),
    "relax.collapse_sum_to": Rule((0,), _is_spread, last_calls.to_shape(R.collapse_sum_to)),
    **dict.fromkeys(_ELEMENTWISE, Rule(None, is_elementwise_call, last_calls.as_it_is)),
    **{
        name: _own(operator, operator.channels_last)
        for name, operator in OPERATORS.items()
        if operator.channels_last
    },
}


# Of a kernel that maps elements: `permuted_kernel` is what is called then.
_KERNEL = Rule(None, is_elementwise_call, last_calls.as_it_is)
