"""NaN stays NaN, and infinities are PyTorch's: forward and backward, by operator.

A maximum that drops NaN hides it: the loss stays finite, and the step trains with numbers that
were none.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from tests.fast import fast_if
from tests.numeric.conftest import weight
from tests.numeric.not_numbers.nonfinite import SHAPE, failures

SAMPLES, CHANNELS, HEIGHT, WIDTH = SHAPE
TARGETS = ("host-cpu", "host-opencl", "host-vulkan")


def _each(names: str, text: str = "$y = {} ($h)") -> dict[str, str]:
    return {name: text.format(name) for name in names.split()}


def _reductions(names: str) -> dict[str, str]:
    """Along what lies side by side, and across it."""
    return _each(names, "$y = {} ($h, planes)") | {
        f"{name}_channels": text for name, text in _each(names, "$y = {} ($h, channels)").items()
    }


# Operators side by side, by the name of their group; `$k` is a second operand.
GROUPS: dict[str, dict[str, str]] = {
    "rectifiers": {
        **_each("Relu LeakyRelu Elu Selu Celu ThresholdedRelu Shrink"),
        "PRelu": "$y = PRelu ($h, $slope)",
        "Relu6": "$y = Clip ($h, zero, six)",
        "Clip": "$y = Clip ($h, low, high)",
        "Clip_low": "$y = Clip ($h, zero)",
        "Clip_high": "$y = Clip ($h, , high)",
        "Max": "$y = Max ($h, $k)",
        "Min": "$y = Min ($h, $k)",
        "Max_three": "$y = Max ($h, zero, $k)",
        "Min_three": "$y = Min (zero, $h, $k)",
        "Max_row": "$y = Max ($h, $row)",
    },
    "pools": {
        "MaxPool": "$y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> ($h)",
        "MaxPool_padded": "$y = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ($h)",
        "MaxPool_large": "$y = MaxPool <kernel_shape = [5, 5], pads = [2, 2, 2, 2]> ($h)",
        "MaxPool_rectified": "$r = Relu ($h) $y = MaxPool <kernel_shape = [2, 2]> ($r)",
        "MaxPool_whole": "$r = Relu ($h) $y = MaxPool <kernel_shape = [6, 5]> ($r)",
        "MaxPool_1d": "$r = Reshape ($h, line) $y = MaxPool <kernel_shape = [3]> ($r)",
        "MaxPool_3d": "$r = Reshape ($h, block) $y = MaxPool <kernel_shape = [2, 2, 2]> ($r)",
        "GlobalAveragePool": "$y = GlobalAveragePool ($h)",
        "AveragePool": "$y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> ($h)",
        "LpPool": "$y = LpPool <kernel_shape = [2, 2], strides = [2, 2]> ($h)",
    },
    "places": {
        "TopK": "$y, $i = TopK ($h, few)",
        "TopK_smallest": "$y, $i = TopK <largest = 0> ($h, few)",
        "ArgMax": "$i = ArgMax <axis = 3> ($h) $y = Cast <to = 1> ($i)",
        "ArgMin": "$i = ArgMin <axis = 1> ($h) $y = Cast <to = 1> ($i)",
        "Where": "$c = Greater ($h, $k) $y = Where ($c, $h, $k)",
        "IsNaN": "$c = IsNaN ($h) $y = Where ($c, zero, $h)",
    },
    "reductions": {
        **_reductions("ReduceMax ReduceMin ReduceSum ReduceMean ReduceL1 ReduceL2"),
        **_reductions("ReduceLogSumExp ReduceProd ReduceSumSquare"),
        "CumSum": "$y = CumSum ($h, last)",
    },
    "layers": {
        "Softmax": "$y = Softmax <axis = 3> ($h)",
        "Softmax_channels": "$y = Softmax <axis = 1> ($h)",
        "LogSoftmax": "$y = LogSoftmax <axis = 3> ($h)",
        "LogSoftmax_channels": "$y = LogSoftmax <axis = 1> ($h)",
        "LayerNormalization": "$y = LayerNormalization ($h, $row)",
        "GroupNormalization": "$y = GroupNormalization <num_groups = 2> ($h, $gamma, $beta)",
        "LRN": "$y = LRN <size = 3, alpha = 0.5> ($h)",
        "LRN_even": "$y = LRN <size = 2, alpha = 0.5> ($h)",
        "InstanceNormalization": "$y = InstanceNormalization ($h, $gamma, $beta)",
        "MatMul": "$s = MatMul ($h, $matrix) $y = Relu ($s)",
        "MatMul_relu6": "$s = MatMul ($h, $matrix) $y = Clip ($s, zero, six)",
        "Conv": "$s = Conv ($h, $point, $beta) $y = Relu ($s)",
        "Conv_window": "$s = Conv <pads = [1, 1, 1, 1]> ($h, $window, $beta) $t = Relu ($s) "
        "$y = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> ($t)",
    },
    "activations": {
        **_each("HardSigmoid HardSwish Gelu Softplus Softsign Sigmoid Tanh Mish"),
        "Gelu_tanh": '$y = Gelu <approximate = "tanh"> ($h)',
    },
    "arithmetic": {
        **_each("Abs Sign Round Floor Ceil Exp Log Sqrt Reciprocal Neg Sin Cos Tan Sinh Cosh"),
        **_each("Asin Acos Atan Asinh Acosh Atanh Erf"),
        **_each("Add Sub Mul Div", "$y = {} ($h, $k)"),
        "Pow_two": "$y = Pow ($h, two)",
        "Pow_three": "$y = Pow ($h, three)",
        "Pow": "$a = Abs ($h) $y = Pow ($a, five_halves)",
        "Mod": "$y = Mod <fmod = 1> ($h, two)",
    },
}
CONSTANTS = {
    **{"low": np.float32(-1.5), "high": np.float32(1.5), "zero": np.float32(0)},
    **{"two": np.float32(2), "three": np.float32(3), "six": np.float32(6)},
    "five_halves": np.float32(2.5),
    "line": np.array([SAMPLES, CHANNELS, HEIGHT * WIDTH]),
    "block": np.array([SAMPLES, 2, 2, HEIGHT, WIDTH]),
    **{"planes": np.array([2, 3]), "channels": np.array([1]), "last": np.array(3)},
    "few": np.array([3]),
}
PARAMETERS = {
    **{"row": 1 + weight(WIDTH), "gamma": 1 + weight(CHANNELS), "beta": weight(CHANNELS)},
    **{"slope": weight(CHANNELS, 1, 1), "matrix": weight(WIDTH, 7)},
    **{"point": weight(CHANNELS, CHANNELS, 1, 1), "window": weight(CHANNELS, CHANNELS, 3, 3)},
}
# Where all is -inf, no element has a share in the sum. The product of the others is a gradient,
# where PyTorch divides that of all: inf by inf.
OTHER_THAN_PYTORCH = {
    "ReduceLogSumExp: gradient of p",
    "ReduceProd: gradient of p",
    "ReduceProd_channels: gradient of p",
}
# Functions that these have no code for. The tanh of OpenCL's driver is not quite 1 at infinity.
WITHOUT = {
    "host-opencl": {
        *"Softplus Gelu_tanh".split(),
        *"Tan Asin Acos Atan Asinh Acosh Atanh Mod".split(),
    },
    "host-vulkan": {"Mod"},
}
FAST = {("host-cpu", group) for group in GROUPS} | {(target, "rectifiers") for target in TARGETS}


def _cases() -> Iterable[tuple[str, str]]:
    return ((target, group) for target in TARGETS for group in GROUPS)


@pytest.mark.parametrize("case", fast_if(FAST.__contains__, _cases()), ids="-".join)
def test_operators_as_in_pytorch(case: tuple[str, str], saved: Callable[..., Path]) -> None:
    target, group = case
    nodes = {k: v for k, v in GROUPS[group].items() if k not in WITHOUT.get(target, ())}
    found = failures(nodes, CONSTANTS, PARAMETERS, saved, target)
    assert {name: text for name, text in found.items() if name not in OTHER_THAN_PYTORCH} == {}
