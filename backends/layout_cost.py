"""What operators take in a layout on a CPU: shares of its peak that kernels were measured to reach.

See "Layouts" in ARCHITECTURE.md for the measurement. Only differences between layouts matter to who
asks; what is the same in both may be left out.
"""

import itertools
import math
from collections.abc import Callable, Sequence

from tvm import relax

from odtc.backends.call_cost import worth_copies
from odtc.backends.kernels.convolution import convolution_of
from odtc.backends.kernels.convolution_terms import Convolution
from odtc.backends.kernels.grid import Walk
from odtc.backends.kernels.shifted_cut import Shape
from odtc.backends.kernels.tile import Machine, machine_of
from odtc.backends.kernels.winograd_cut import winograd_gain
from odtc.backends.targets import Target
from odtc.core.kernel_marks import BATCH_NORM, BATCH_NORM_BACKWARD, GROUPED_WEIGHT_GRADIENT
from odtc.core.layouts import LAST
from odtc.core.relax_calls import operator_of
from odtc.passes.layout.step_graph import Costs

_TRANSPOSED = "relax.nn.conv2d_transpose"
# Of a core: operations of each lane in a second, and bytes of tensors that lie in its caches.
_PER_LANE, _BYTES = 16e9, 20e9
# What a copy costs beside its bytes.
_CALL = 2e-6
# Shares of the peak within a step: of products of one tap, of larger windows and of depthwise
# convolutions, for channels second and last.
_POINT = {False: 0.42, True: 0.44}
_WINDOW = {False: 0.60, True: 0.60}
# Of gradients of weights with channels last, where a window steps by one, and by more.
_WEIGHTS, _STRIDED_WEIGHTS = 0.95, 0.75
_DEPTHWISE = {False: 0.11, True: 0.14}
# Channels below which the gradient of a weight waits for its sums where channels are last.
_WIDE = 64
# Seconds for each element of a normalisation: a channel stays near a core between its passes, all
# channels of all pixels do not.
_NORMAL = {
    BATCH_NORM: {False: 0.58e-9, True: 0.50e-9},
    BATCH_NORM_BACKWARD: {False: 0.50e-9, True: 0.75e-9},
}
# Seconds for each byte of what a normalisation makes that it and its readers save, with channels
# second, where these compute it and nothing writes it.
_WRITTEN = 0.16e-9


def layout_costs(target: Target) -> Costs:
    """The costs of a CPU."""
    machine = machine_of(target.vector_bits)

    def call(value: relax.Call, layout: str) -> float:
        find = _MODELS.get(operator_of(value))
        return find(value, layout == LAST, machine) if find else 0.0

    return Costs(
        call,
        lambda nbytes: _CALL + 2 * nbytes / _BYTES,
        lambda nbytes: nbytes * _WRITTEN,
        worth_copies(target),
    )


def _convolution(call: relax.Call, is_last: bool, machine: Machine) -> float:
    """Images are channels second here, whatever the form that is asked for."""
    image, weight, out = _shape(call.args[0]), _shape(call.args[1]), _shape(call)
    attrs, pixels = call.attrs, math.prod(out[2:])
    is_gradient = str(attrs.data_layout) == "CNHW"
    steps = [int(step) for step in (attrs.dilation if is_gradient else attrs.strides)]
    if is_gradient:
        # The window steps over the image by the dilation of this sum.
        weight, out = out, weight
        pixels = math.prod(out[2:])
    elif operator_of(call) == _TRANSPOSED:
        # Each element of what is read is multiplied by all weights.
        pixels = math.prod(image[2:])
    work = 2 * image[0] * pixels * math.prod(weight)
    if int(attrs.groups) > 1:
        return _depthwise(work, pixels, is_last, machine)
    lanes = machine.lanes
    if math.prod(weight[2:]) > 1 or max(steps) > 1:
        share = _window(call, is_last, machine, is_gradient, steps)
        return work / (share * lanes * _PER_LANE)
    share = _POINT[is_last] * math.sqrt(_filled(weight[0] if is_last else pixels, lanes))
    if is_gradient and is_last:
        share *= min(1.0, math.sqrt(min(weight[:2]) / _WIDE))
    return work / (share * lanes * _PER_LANE)


def _window(
    call: relax.Call, is_last: bool, machine: Machine, is_gradient: bool, steps: Sequence[int]
) -> float:
    """The share of the peak that a product of several taps reaches, or one with a stride."""
    share, made, lanes = _WINDOW[is_last], _shape(call), machine.lanes
    if is_gradient:
        return share * ((_STRIDED_WEIGHTS if max(steps) > 1 else _WEIGHTS) if is_last else 1.0)
    if is_last:
        return share * math.sqrt(_filled(made[1], lanes))
    # Where weights are read with a stride, small images leave more empty.
    filled = _filled(math.prod(made[2:]), lanes)
    share *= filled if operator_of(call) == _TRANSPOSED else math.sqrt(filled)
    described = convolution_of(call)
    return share * (_times_as_fast(described, machine) if described else 1.0)


def _times_as_fast(convolution: Convolution, machine: Machine) -> float:
    """How many times as fast a convolution with channels second is by Winograd's form."""
    (image, weight, _), axes = convolution.shapes, convolution.axes()
    walks: list[Sequence[Walk]] = [[axis.forward() for axis in axes]]
    rows = weight[0]
    if convolution.family == "data-gradient":
        walks = list(itertools.product(*(axis.backward() for axis in axes)))
        rows = weight[1]
    return winograd_gain(Shape(image[0], image[1], rows), walks, machine)


def _grouped(call: relax.Call, is_last: bool, machine: Machine) -> float:
    out = _shape(call.args[1])
    pixels = math.prod(out[2:])
    return _depthwise(2 * out[0] * pixels * math.prod(_shape(call)), pixels, is_last, machine)


def _depthwise(work: int, pixels: int, is_last: bool, machine: Machine) -> float:
    filled = 1.0 if is_last else math.sqrt(_filled(pixels, machine.lanes))
    return work / (_DEPTHWISE[is_last] * filled * machine.lanes * _PER_LANE)


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
    GROUPED_WEIGHT_GRADIENT: _grouped,
    BATCH_NORM: _normal,
    BATCH_NORM_BACKWARD: _normal,
}
