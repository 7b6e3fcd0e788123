"""Which operators of a step can run with channels last, and how they say it.

Each works on images, tensors of samples, channels, rows and columns: some of what it reads, and
what it makes unless that is the gradient of a weight. Weights stay as ONNX has them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, s_tir, tirx
from tvm.relax import op as R  # noqa: N812

from odtc.core.kernel_marks import (
    ACTIVATIONS,
    BATCH_NORM,
    BATCH_NORM_BACKWARD,
    GROUPED_WEIGHT_GRADIENT,
)
from odtc.core.layouts import LAST, SECOND
from odtc.core.relax_calls import operator_of

# Dimensions of images.
IMAGE = 4
CALL_TIR = "relax.call_tir"
_ELEMENTWISE = (
    *(f"relax.{name}" for name in "add subtract multiply divide maximum minimum negative".split()),
    *ACTIVATIONS,
)
# Below this many channels a vector is not full.
_FEW = 16
# Taps of a depthwise convolution whose sums are registers.
_MOST_TAPS = 9


@dataclass(frozen=True)
class Rule:
    """An operator that can run with channels last.

    Attributes:
        images: places of the images among the arguments; None for all of them.
        condition: whether a call can.
        last: the call with channels last, from it and its new arguments.
        makes_image: whether what it makes is an image, or the first of its results.
    """

    images: tuple[int, ...] | None
    condition: Callable[[relax.Call], bool]
    last: Callable[[relax.Call, Sequence[relax.Expr]], relax.Expr]
    makes_image: bool = True


def is_image(expression: relax.Expr) -> bool:
    """Whether an expression is a batch of images of float32."""
    type_ = expression.ty
    is_tensor = isinstance(type_, relax.TensorType)
    return is_tensor and type_.ndim == IMAGE and type_.dtype == "float32"


def rule_of(call: relax.Expr, module: tvm.IRModule) -> Rule | None:
    """The rule of a call; None where it runs with channels second only."""
    if operator_of(call) == CALL_TIR:
        kernel = module[call.args[0]]
        return _KERNEL if is_elementwise_call(call) and maps_elements(kernel) else None
    rule = _RULES.get(_name(call))
    return rule if rule is not None and rule.condition(call) else None


def images_of(call: relax.Call, rule: Rule) -> list[relax.Var]:
    """The images that a call reads."""
    read = call.args[1].fields if operator_of(call) == CALL_TIR else call.args
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


def _ints(values: Sequence[Any]) -> list[int]:
    return [int(value) for value in values]


def _shape(expression: relax.Expr) -> list[int]:
    return _ints(expression.ty.shape)


def _is_plain(call: relax.Call) -> bool:
    """Whether a window takes each pixel once, without a border."""
    attrs = call.attrs
    steps = [*_ints(attrs.strides), *_ints(attrs.dilation)]
    return set(steps) == {1} and set(_ints(attrs.padding)) == {0} and int(attrs.groups) == 1


def _has_layout(call: relax.Call) -> bool:
    return str(call.attrs.data_layout) == SECOND and call.ty.dtype == "float32"


def _is_point(weight: Sequence[int]) -> bool:
    return list(weight[2:]) == [1, 1] and min(weight[:2]) >= _FEW


def _is_depthwise(weight: Sequence[int], groups: int) -> bool:
    is_small = weight[2] * weight[3] <= _MOST_TAPS
    return weight[1] == 1 and weight[0] == groups >= _FEW and is_small


def _is_convolution(call: relax.Call) -> bool:
    """One of one tap, or one of each channel."""
    weight = _shape(call.args[1])
    depthwise = _is_depthwise(weight, int(call.attrs.groups))
    return _has_layout(call) and (depthwise or (_is_plain(call) and _is_point(weight)))


def _is_point_gradient(call: relax.Call) -> bool:
    return call.ty.dtype == "float32" and _is_plain(call) and _is_point(_shape(call))


def _is_depthwise_gradient(call: relax.Call) -> bool:
    return _is_depthwise(_shape(call), int(call.attrs["groups"]))


def _is_of_images(call: relax.Call) -> bool:
    return all(map(is_image, call.args[:1])) and _shape(call.args[0])[1] >= _FEW


def is_elementwise_call(call: relax.Call) -> bool:
    """Whether all that a call reads are images of the shape of its result, or single numbers."""
    if not is_image(call):
        return False
    read = call.args[1].fields if operator_of(call) == CALL_TIR else call.args
    images = [each for each in read if isinstance(each.ty, relax.TensorType) and each.ty.ndim]
    shape = _shape(call)
    if not images or shape[1] < _FEW:
        return False
    return all(
        isinstance(each, relax.Var) and is_image(each) and _shape(each) == shape for each in images
    )


def _convolution(operator: Callable[..., relax.Call], **layouts: str) -> Any:
    def last(call: relax.Call, arguments: Sequence[relax.Expr]) -> relax.Expr:
        attrs = call.attrs
        options: dict[str, Any] = {
            name: _ints(getattr(attrs, name)) for name in ("strides", "padding", "dilation")
        }
        if operator is R.nn.conv2d_transpose:
            options["output_padding"] = _ints(attrs.output_padding)
        return operator(*arguments, **options, groups=int(attrs.groups), **layouts)

    return last


def _with_layout(call: relax.Call, arguments: Sequence[relax.Expr]) -> relax.Expr:
    attrs = dict(call.attrs.items()) if call.attrs else {}
    attrs = ir.make_node("ir.DictAttrs", **attrs, layout=LAST)
    return relax.Call(call.op, list(arguments), attrs)


def _as_it_is(call: relax.Call, arguments: Sequence[relax.Expr]) -> relax.Expr:
    return relax.Call(call.op, list(arguments), call.attrs)


_RULES: Mapping[str, Rule] = {
    "relax.nn.conv2d": Rule(
        (0,),
        _is_convolution,
        _convolution(R.nn.conv2d, data_layout=LAST, kernel_layout="OIHW", out_layout=LAST),
    ),
    "relax.nn.conv2d_transpose": Rule(
        (0,),
        _is_convolution,
        _convolution(
            R.nn.conv2d_transpose, data_layout=LAST, kernel_layout="IOHW", out_layout=LAST
        ),
    ),
    # Samples and channels change places: the sum is over samples and pixels.
    _WEIGHT_GRADIENT: Rule(
        (0, 1),
        _is_point_gradient,
        _convolution(R.nn.conv2d, data_layout="CHWN", kernel_layout="IHWO", out_layout="CNHW"),
        makes_image=False,
    ),
    GROUPED_WEIGHT_GRADIENT: Rule((0, 1), _is_depthwise_gradient, _with_layout, makes_image=False),
    BATCH_NORM: Rule((0,), _is_of_images, _with_layout),
    BATCH_NORM_BACKWARD: Rule((0, 1), _is_of_images, _with_layout),
    **dict.fromkeys(_ELEMENTWISE, Rule(None, is_elementwise_call, _as_it_is)),
}


# Of a kernel that maps elements: `permuted_kernel` is what is called then.
_KERNEL = Rule(None, is_elementwise_call, _as_it_is)


def maps_elements(kernel: tirx.PrimFunc) -> bool:
    """Whether each block of a kernel reads images only where it writes one."""
    if not isinstance(kernel.body, s_tir.SBlockRealize):
        return False
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(kernel.body, (s_tir.SBlock, blocks.append))
    return all(map(_is_map, [each for each in blocks if each.iter_vars]))


def _is_map(block: s_tir.SBlock) -> bool:
    own = [axis.var for axis in block.iter_vars]
    reads: list[ir.TensorLoad] = []
    if not isinstance(block.body, tirx.BufferStore):
        return False
    tvm_ffi.structural_walk(block.body.value, (ir.TensorLoad, reads.append))
    indices = [list(block.body.indices), *(list(each.indices) for each in reads)]
    return len(own) == IMAGE and all(
        not at or (len(at) == len(own) and all(a.same_as(b) for a, b in zip(at, own, strict=True)))
        for at in indices
    )


def permuted_kernel(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that maps elements of images, for images that have their channels last."""
    schedule = s_tir.Schedule(kernel)
    done: set[ir.Var] = set()

    def last(n: ir.Expr, c: ir.Expr, h: ir.Expr, w: ir.Expr) -> tuple[ir.Expr, ...]:
        return n, h, w, c

    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        for kind in ("read", "write"):
            for place in range(len(getattr(schedule.get(block), f"{kind}s"))):
                source = getattr(schedule.get(block), f"{kind}s")[place].source
                if len(source.shape) == IMAGE and source not in done:
                    schedule.transform_layout(block, (kind, place), last)
                    done.add(getattr(schedule.get(block), f"{kind}s")[place].source)
        schedule.transform_block_layout(block, last)
    made = schedule.mod["main"]
    return made.with_attrs(kernel.attrs) if kernel.attrs else made
