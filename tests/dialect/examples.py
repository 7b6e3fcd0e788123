"""A small call of each operator of our own, and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax
from tvm.relax import TensorType

from odtc.core.ir.layouts import LAST
from odtc.dialect.draw.dropout import dropout
from odtc.dialect.draw.random import random
from odtc.dialect.elements import pointwise
from odtc.dialect.elements.bit_cast import bit_cast
from odtc.dialect.elements.dequantised import NIBBLES, dequantised
from odtc.dialect.elements.prelu import prelu
from odtc.dialect.elements.remainder import remainder
from odtc.dialect.gradient.attach import attach
from odtc.dialect.gradient.seed import seed
from odtc.dialect.images.batch_norm import (
    batch_norm,
    batch_norm_backward,
    batch_statistics,
    normalised,
)
from odtc.dialect.images.copies import concat_last, relayout
from odtc.dialect.images.grouped_weight_gradient import grouped_weight_gradient
from odtc.dialect.images.max_pool import max_pool2d, max_pool2d_backward
from odtc.dialect.images.window_sum import window_sum
from odtc.dialect.operator import RelaxOperator
from odtc.dialect.rows.cross_entropy import cross_entropy, cross_entropy_slope
from odtc.dialect.rows.norms import group_norm_backward, layer_norm_backward
from odtc.dialect.rows.reductions import log_sum_exp, norm
from odtc.dialect.rows.softmax import safe_softmax, softmax_backward
from odtc.dialect.sequences.attention import attention, attention_backward
from odtc.dialect.sequences.recurrent import recurrent, recurrent_backward


@dataclass(frozen=True)
class Example:
    """A call.

    Attributes:
        given: types of its tensors.
        gives: types of its results.
        attributes: by name.
    """

    given: tuple[TensorType, ...]
    gives: tuple[TensorType, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def call_in(self, operator: RelaxOperator, **more: Any) -> tvm.IRModule:
        """A module whose function `f` is the call."""
        builder = relax.BlockBuilder()
        tensors = [relax.Var(f"x{number}", type_) for number, type_ in enumerate(self.given)]
        with builder.function("f", tensors):
            with builder.dataflow():
                result = builder.emit_output(operator(*tensors, **self.attributes, **more))
            builder.emit_func_output(result)
        return builder.get()


def floats(*shape: int) -> TensorType:
    """A tensor of float32."""
    return TensorType(shape, "float32")


_IMAGE, _POOLED = (2, 16, 8, 6), (2, 16, 4, 3)
_CHOSEN = TensorType(_POOLED, "uint8")
_WINDOW = {
    "pool_size": [3, 2],
    "strides": [2, 2],
    "padding": [1, 0, 1, 0],
    "dilation": [1, 1],
}

_Q, _K, _V, _OUT = floats(2, 3, 4, 8), floats(2, 3, 5, 8), floats(2, 3, 5, 6), floats(2, 3, 4, 6)
_OF_QUERY = floats(2, 3, 4)
_SCORES = {"inner": [False] * 4, "scale": 0.5, "replaces": False, "safe": False}
# Three steps of two samples, with four hidden elements.
_STEPS, _STATE, _GATES = floats(3, 2, 4), floats(2, 4), floats(3, 2, 16)
_LSTM = {"cell": "lstm", "reverse": False}

# Sixteen channels.
_CHANNEL = floats(16)
_MATRIX, _ROW, _COLUMN = floats(4, 6), floats(6), floats(4)
_GROUPS = {"groups": 16, "strides": [1, 1], "padding": [0, 0], "dilation": [1, 1]}
_CLASSES, _STEP = TensorType((4,), "int32"), TensorType((), "int32")
_DRAWN = {"stream": 1, "seed": 3}
_POINTWISE: dict[RelaxOperator, dict[str, Any]] = {
    pointwise.clip: {"low": -1.0, "high": None},
    pointwise.cosh: {},
    pointwise.elu: {"alpha": 0.5, "gamma": 1.0, "rate": 1.0},
    pointwise.gelu: {},
    pointwise.gelu_tanh: {},
    pointwise.hard_sigmoid: {"alpha": 0.25, "beta": 0.5},
    pointwise.hard_swish: {},
    pointwise.hardtanh: {"low": -1.0, "high": 1.0},
    pointwise.integer_power: {"exponent": 3},
    pointwise.leaky_relu: {"alpha": 0.5},
    pointwise.mish: {},
    pointwise.positive_power: {"exponent": 0.5},
    pointwise.reciprocal: {},
    pointwise.relu6: {},
    pointwise.shrink: {"lambd": 0.5, "bias": 0.25},
    pointwise.sinh: {},
    pointwise.softplus: {},
    pointwise.softsign: {},
    pointwise.swish: {"alpha": 1.0},
    pointwise.thresholded_relu: {"alpha": 1.0},
}

EXAMPLES: dict[RelaxOperator, Example] = {
    max_pool2d: Example(
        (floats(*_IMAGE),), (floats(*_POOLED), _CHOSEN), {**_WINDOW, "rectifies": True}
    ),
    max_pool2d_backward: Example(
        (floats(*_POOLED), _CHOSEN), (floats(*_IMAGE),), {**_WINDOW, "shape": list(_IMAGE)}
    ),
    attention: Example((_Q, _K, _V), (_OUT, _OF_QUERY, _OF_QUERY), _SCORES),
    attention_backward: Example(
        (_OUT, _Q, _K, _V, _OUT, _OF_QUERY, _OF_QUERY), (_Q, _K, _V), _SCORES
    ),
    recurrent: Example(
        (_GATES, floats(16, 4), _STATE, _STATE),
        (_STEPS, _STATE, _STATE, _GATES, _STEPS),
        {**_LSTM, "saves": True},
    ),
    recurrent_backward: Example(
        (_STEPS, _STATE, _STATE, floats(16, 4), _STATE, _STEPS, _GATES, _STEPS),
        (_GATES, _STEPS, _STATE, _STATE),
        _LSTM,
    ),
    batch_norm: Example(
        (floats(*_IMAGE), *[_CHANNEL] * 4),
        (floats(*_IMAGE), *[_CHANNEL] * 4),
        {"epsilon": 0.5, "momentum": 0.75, "activation": ""},
    ),
    batch_norm_backward: Example(
        (floats(*_IMAGE), floats(*_IMAGE), *[_CHANNEL] * 3),
        (floats(*_IMAGE), _CHANNEL, _CHANNEL),
    ),
    batch_statistics: Example(
        (floats(*_IMAGE), _CHANNEL, _CHANNEL),
        (_CHANNEL,) * 4,
        {"epsilon": 0.5, "momentum": 0.75},
    ),
    normalised: Example(
        (floats(*_IMAGE), *[_CHANNEL] * 4), (floats(*_IMAGE),), {"activation": pointwise.relu6.name}
    ),
    grouped_weight_gradient: Example(
        (floats(2, 16, 5, 5), floats(2, 16, 3, 3)),
        (floats(16, 1, 3, 3),),
        {**_GROUPS, "window": [3, 3]},
    ),
    window_sum: Example((floats(2, 5, 3),), (floats(2, 5, 3),), {"before": 1, "after": 2}),
    relayout: Example((floats(*_IMAGE),), (floats(2, 8, 6, 16),), {"to": LAST}),
    concat_last: Example((floats(2, 8, 6, 16), floats(2, 8, 6, 4)), (floats(2, 8, 6, 20),)),
    cross_entropy: Example((_MATRIX, _CLASSES), (_COLUMN,) * 3),
    cross_entropy_slope: Example((_MATRIX, _CLASSES, *[_COLUMN] * 3), (_MATRIX,)),
    layer_norm_backward: Example(
        (_MATRIX, _MATRIX, _ROW), (_MATRIX, _ROW, _ROW), {"epsilon": 0.5, "centred": True}
    ),
    group_norm_backward: Example(
        (floats(*_IMAGE), floats(*_IMAGE), _CHANNEL),
        (floats(*_IMAGE), _CHANNEL, _CHANNEL),
        {"epsilon": 0.5, "groups": 2},
    ),
    safe_softmax: Example((_MATRIX,), (_MATRIX,), {"axis": 1}),
    softmax_backward: Example((_MATRIX, _MATRIX), (_MATRIX,), {"axis": 1, "log": True}),
    log_sum_exp: Example((_MATRIX,), (_COLUMN,), {"axis": [1], "keepdims": False}),
    norm: Example((_MATRIX,), (floats(1, 1),), {"axis": [0, 1], "keepdims": True}),
    prelu: Example((_MATRIX, _ROW), (_MATRIX,)),
    remainder: Example((_ROW, floats(4, 1)), (_MATRIX,)),
    bit_cast: Example((_MATRIX,), (TensorType((4, 6), "int32"),), {"dtype": "int32"}),
    dequantised: Example(
        (TensorType((4, 3), "uint8"), TensorType((4, 1), "uint8"), floats(4, 2)),
        (_MATRIX,),
        {"stored": NIBBLES, "shape": [4, 6], "blocks": [1, 3]},
    ),
    dropout: Example((_MATRIX, _STEP), (_MATRIX,), {**_DRAWN, "ratio": 0.25}),
    random: Example((_STEP,), (_MATRIX,), {**_DRAWN, "shape": [4, 6], "keep": 0.0}),
    attach: Example((_MATRIX, floats(4, 2)), (_MATRIX,), {"axis": 1, "start": 3}),
    seed: Example((_MATRIX, _MATRIX), (floats(),)),
    **{
        operator: Example((_MATRIX,), (_MATRIX,), attributes)
        for operator, attributes in _POINTWISE.items()
    },
}
