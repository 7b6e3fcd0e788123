"""A small call of each operator of our own, and what it gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax

from odtc.dialect.images.max_pool import max_pool2d, max_pool2d_backward
from odtc.dialect.operator import RelaxOperator

Type = relax.TensorType


@dataclass(frozen=True)
class Example:
    """A call.

    Attributes:
        given: types of its tensors.
        gives: types of its results.
        attributes: by name.
    """

    given: tuple[Type, ...]
    gives: tuple[Type, ...]
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


def floats(*shape: int) -> Type:
    """A tensor of float32."""
    return Type(shape, "float32")


_IMAGE, _POOLED = (2, 16, 8, 6), (2, 16, 4, 3)
_CHOSEN = Type(_POOLED, "uint8")
_WINDOW = {
    "pool_size": [3, 2],
    "strides": [2, 2],
    "padding": [1, 0, 1, 0],
    "dilation": [1, 1],
}

EXAMPLES: dict[RelaxOperator, Example] = {
    max_pool2d: Example(
        (floats(*_IMAGE),), (floats(*_POOLED), _CHOSEN), {**_WINDOW, "rectifies": True}
    ),
    max_pool2d_backward: Example(
        (floats(*_POOLED), _CHOSEN), (floats(*_IMAGE),), {**_WINDOW, "shape": list(_IMAGE)}
    ),
}
