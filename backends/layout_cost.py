"""What operators take in a layout on a CPU: shares of its peak that kernels were measured to reach.

See "Layouts" in ARCHITECTURE.md for the measurement. Only differences between layouts matter to who
asks; what is the same in both may be left out.
"""

import math
from collections.abc import Callable, Sequence

from tvm import relax

from odtc.backends.targets import Target
from odtc.core.kernel_marks import BATCH_NORM, BATCH_NORM_BACKWARD, GROUPED_WEIGHT_GRADIENT
from odtc.core.layouts import LAST
from odtc.core.relax_calls import operator_of
from odtc.passes.layout.step_graph import Costs

# Of a core: operations of each lane in a second, and bytes of tensors that lie in its caches.
_PER_LANE, _BYTES = 16e9, 20e9
# What a copy costs beside its bytes.
_CALL = 2e-6
# Shares of the peak within a step: of products of one tap and of depthwise convolutions, for
# channels second and last.
_POINT = {False: 0.42, True: 0.44}
_DEPTHWISE = {False: 0.11, True: 0.14}
# Channels below which the gradient of a weight waits for its sums where channels are last.
_WIDE = 64
# Seconds for each element of a normalisation: a channel stays near a core between its passes, all
# channels of all pixels do not.
_NORMAL = {
    BATCH_NORM: {False: 0.58e-9, True: 0.62e-9},
    BATCH_NORM_BACKWARD: {False: 0.50e-9, True: 0.78e-9},
}


def layout_costs(target: Target) -> Costs:
    """The costs of a CPU."""
    lanes = target.vector_bits // 32

    def call(value: relax.Call, layout: str) -> float:
        find = _MODELS.get(operator_of(value))
        return find(value, layout == LAST, lanes) if find else 0.0

    return Costs(call, lambda nbytes: _CALL + 2 * nbytes / _BYTES)


def _convolution(call: relax.Call, is_last: bool, lanes: int) -> float:
    """Images are channels second here, whatever the form that is asked for."""
    image, out = _shape(call.args[0]), _shape(call)
    weight = _shape(call.args[1])
    is_gradient = str(call.attrs.data_layout) == "CNHW"
    if is_gradient:
        weight, out = out, weight
    pixels = math.prod(out[2:])
    work = 2 * image[0] * pixels * math.prod(weight)
    if int(call.attrs.groups) > 1:
        return _depthwise(work, pixels, is_last, lanes)
    share = _POINT[is_last] * math.sqrt(_filled(weight[0] if is_last else pixels, lanes))
    if is_gradient and is_last:
        share *= min(1.0, math.sqrt(min(weight[:2]) / _WIDE))
    return work / (share * lanes * _PER_LANE)


def _grouped(call: relax.Call, is_last: bool, lanes: int) -> float:
    out = _shape(call.args[1])
    pixels = math.prod(out[2:])
    return _depthwise(2 * out[0] * pixels * math.prod(_shape(call)), pixels, is_last, lanes)


def _depthwise(work: int, pixels: int, is_last: bool, lanes: int) -> float:
    share = _DEPTHWISE[is_last] * (1.0 if is_last else math.sqrt(_filled(pixels, lanes)))
    return work / (share * lanes * _PER_LANE)


def _normal(call: relax.Call, is_last: bool, _: int) -> float:
    return math.prod(_shape(call.args[0])) * _NORMAL[operator_of(call)][is_last]


def _filled(count: int, lanes: int) -> float:
    """The share of vectors that so many elements fill."""
    return count / (-(-count // lanes) * lanes)


def _shape(expression: relax.Expr) -> Sequence[int]:
    return [int(size) for size in expression.ty.shape]


_MODELS: dict[str, Callable[[relax.Call, bool, int], float]] = {
    "relax.nn.conv2d": _convolution,
    "relax.nn.conv2d_transpose": _convolution,
    GROUPED_WEIGHT_GRADIENT: _grouped,
    BATCH_NORM: _normal,
    BATCH_NORM_BACKWARD: _normal,
}
