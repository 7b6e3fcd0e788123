"""A small call of each operator of our own, and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax
from tvm.relax import TensorType

from odtc.dialect.images.max_pool import max_pool2d, max_pool2d_backward
from odtc.dialect.operator import RelaxOperator
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
}
