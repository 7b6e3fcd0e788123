"""Costs of operators in a layout on a CPU, from the shares of its peak that kernels reached.

See docs/design/layouts.md; the measurements are in docs/design/log.md. Only differences between
layouts matter to callers; what is the same in both may be left out.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from tvm import relax

from odtc.backends.cost.call_cost import worth_copies
from odtc.backends.kernels.convolution.grid import Walk
from odtc.backends.kernels.convolution.rules import convolution_of
from odtc.backends.kernels.convolution.shifted_cut import Shape
from odtc.backends.kernels.product.tile import Machine, machine_of
from odtc.backends.kernels.winograd.cut import winograd_gain
from odtc.backends.targets import Target
from odtc.core.ir.layouts import LAST
from odtc.core.ir.relax_calls import operator_of
from odtc.dialect.images.batch_norm import batch_norm, batch_norm_backward
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.passes.layout.step_graph import Costs

# Share of a step that sums of these costs are wrong by; see the six networks in docs/design/log.md.
ERROR = 0.08
_TRANSPOSED = "relax.nn.conv2d_transpose"
# Of a core: operations of each lane in a second, and bytes of tensors that lie in its caches.
_PER_LANE, _BYTES = 16e9, 20e9
# Of a byte that a budget has no room for, to make it again: one is read and one is written.
_MADE_AGAIN = 2 / _BYTES
# Overhead of a copy.
_CALL = 2e-6
# Families of convolutions: a convolution, and the gradients of its data and of its weights.
_FORWARD, _DATA, _WEIGHTS = "convolution", "data-gradient", "weight-gradient"
# Shares of the peak within a step, by family, for channels second and last: of products of one tap,
# of larger windows where all taps are multiplied, and of depthwise convolutions.
Shares = Mapping[str, Mapping[bool, float]]
_POINT: Shares = {
    _FORWARD: {False: 0.32, True: 0.36},
    _DATA: {False: 0.30, True: 0.36},
    _WEIGHTS: {False: 0.43, True: 0.43},
}
_WINDOW: Shares = {
    _FORWARD: {False: 0.41, True: 0.38},
    _DATA: {False: 0.41, True: 0.38},
    _WEIGHTS: {False: 0.42, True: 0.37},
}
_DEPTHWISE: Shares = {
    _FORWARD: {False: 0.105, True: 0.112},
    _DATA: {False: 0.125, True: 0.215},
    _WEIGHTS: {False: 0.12, True: 0.10},
}
# Windows with a stride over channels second read every other element.
_STRIDED = 0.75
# Bytes of images that the gradient of a weight of one tap reads in a second.
_READ = {False: 25e9, True: 18.5e9}
# Seconds for each element of a normalisation: a channel stays near a core between its passes, all
# channels of all pixels do not.
_NORMAL = {
    batch_norm.name: {False: 0.32e-9, True: 0.37e-9},
    batch_norm_backward.name: {False: 0.38e-9, True: 0.54e-9},
}
# Seconds for each byte of what a normalisation makes that it and its readers save, with channels
# second, where these compute it and nothing writes it.
_WRITTEN = 0.065e-9


def layout_costs(target: Target, *, is_tight: bool = False) -> Costs:
    """The costs of a CPU.

    Args:
        target: of the costs.
        is_tight: whether a step has to keep within a budget of bytes.
    """
    machine = machine_of(target.vector_bits, caches=target.caches)

    def call(value: relax.Call, layout: str) -> float:
        find = _MODELS.get(operator_of(value))
        return find(value, layout == LAST, machine) if find else 0.0

    return Costs(
        call,
        lambda nbytes: _CALL + 2 * nbytes / _BYTES,
        lambda nbytes: nbytes * _WRITTEN,
        worth_copies(target),
        _MADE_AGAIN if is_tight else 0.0,
    )


def _convolution(call: relax.Call, is_last: bool, machine: Machine) -> float:
    """Seconds of a convolution; its call has channels second, whichever layout is asked for."""
    image, weight, out = _shape(call.args[0]), _shape(call.args[1]), _shape(call)
    attrs, lanes, read = call.attrs, machine.lanes, 0
    family, steps, made = _FORWARD, attrs.strides, out[1]
    if str(attrs.data_layout) == "CNHW":
        # The window steps over the image by the dilation of this sum.
        family, steps = _WEIGHTS, attrs.dilation
        weight, out = out, weight
        made = weight[0]
    elif operator_of(call) == _TRANSPOSED:
        # Each element of what is read is multiplied by all weights.
        family, out = _DATA, image
    pixels = math.prod(out[2:])
    work = 2 * image[0] * pixels * math.prod(weight)
    if int(attrs.groups) > 1:
        return _depthwise(family, work, pixels, is_last, machine)
    is_strided = any(int(step) > 1 for step in steps)
    if math.prod(weight[2:]) > 1 or is_strided:
        share = _WINDOW[family][is_last] * (1.0 if is_last else _more_by_form(call, machine))
        share *= _STRIDED if is_strided and family == _FORWARD and not is_last else 1.0
    else:
        share = _POINT[family][is_last]
        read = 4 * image[0] * pixels * sum(weight[:2]) if family == _WEIGHTS else 0
    share *= math.sqrt(_filled(made if is_last else _columns(call, family, pixels), lanes))
    return work / (share * lanes * _PER_LANE) + read / _READ[is_last]


def _columns(call: relax.Call, family: str, pixels: int) -> int:
    """Positions of an image along which vectors are, with channels second."""
    return math.prod(_shape(call)[2:]) if family == _DATA else pixels


def _more_by_form(call: relax.Call, machine: Machine) -> float:
    """Speedup of a convolution with channels second, by its form."""
    convolution = convolution_of(call)
    if convolution is None or convolution.family == _WEIGHTS:
        return 1.0
    (image, weight, _), axes = convolution.shapes, convolution.axes()
    walks: list[Sequence[Walk]] = [[axis.forward() for axis in axes]]
    rows = weight[0]
    if convolution.family == _DATA:
        walks = list(itertools.product(*(axis.backward() for axis in axes)))
        rows = weight[1]
    return winograd_gain(Shape(image[0], image[1], rows), walks, machine)


def _grouped(call: relax.Call, is_last: bool, machine: Machine) -> float:
    out = _shape(call.args[1])
    pixels = math.prod(out[2:])
    return _depthwise(
        _WEIGHTS, 2 * out[0] * pixels * math.prod(_shape(call)), pixels, is_last, machine
    )


def _depthwise(family: str, work: int, pixels: int, is_last: bool, machine: Machine) -> float:
    filled = 1.0 if is_last else math.sqrt(_filled(pixels, machine.lanes))
    return work / (_DEPTHWISE[family][is_last] * filled * machine.lanes * _PER_LANE)


def _normal(call: relax.Call, is_last: bool, _: Machine) -> float:
    return math.prod(_shape(call.args[0])) * _NORMAL[operator_of(call)][is_last]


def _filled(count: int, lanes: int) -> float:
    """The share of vectors that so many elements fill."""
    return count / (-(-count // lanes) * lanes)


def _shape(expression: relax.Expr) -> Sequence[int]:
    return [int(size) for size in expression.ty.shape]


_MODELS: dict[str, Callable[[relax.Call, bool, Machine], float]] = {
    "relax.nn.conv2d": _convolution,
    _TRANSPOSED: _convolution,
    grouped_weight_gradient.name: _grouped,
    batch_norm.name: _normal,
    batch_norm_backward.name: _normal,
}
