"""Arithmetic of a training step, and the least memory traffic that it needs.

Both are counted from the ONNX graph, so that they are the same for every engine. Arithmetic is
that of convolutions, matrix products and recurrent cells: a multiplication and an addition are two
operations. A step is three times the forward pass: each product has a gradient for either operand.
The data gradient of the first layer is counted too, though no engine computes it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx
from onnx import helper

from odtc.frontend.file.specialize import specialize

Shape = tuple[int, ...]

_PASSES = 3
_FLOAT_BYTES = 4
_CELLS = ("LSTM", "GRU", "RNN")
# They reinterpret a tensor's shape or layout; no engine has to move it.
_VIEWS = frozenset(
    "Constant Dropout Flatten Identity Reshape Shape Squeeze Transpose Unsqueeze".split()
)


@dataclass(frozen=True)
class StepWork:
    """The work of a step.

    Attributes:
        flops: floating-point operations.
        bytes: what it reads and writes where each node reads its inputs and writes its outputs
            once, in float32; an engine that fuses nodes moves less.
    """

    flops: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.flops / self.bytes


def training_work(
    model: onnx.ModelProto, batch: int, shape: Mapping[str, int] | None = None
) -> StepWork:
    """The work of a training step.

    Args:
        model: of static shape, but for the batch.
        batch: samples in a step, also where the model was exported for another number.
        shape: sizes of other symbolic dimensions.

    Raises:
        ValueError: a shape that arithmetic depends on is not known.
    """
    graph = specialize(model, batch, shape)
    shapes = graph.shapes | {name: value.shape for name, value in graph.parameters.items()}
    flops = moved = 0
    for node in graph.nodes:
        if node.op_type in FLOPS:
            flops += FLOPS[node.op_type](node, shapes)
        if node.op_type not in _VIEWS:
            names = {name for name in (*node.input, *node.output) if name}
            moved += sum(math.prod(shapes.get(name, (0,))) for name in names)
    return StepWork(_PASSES * flops, _PASSES * _FLOAT_BYTES * moved)


def _known(name: str, shapes: Mapping[str, Shape]) -> Shape:
    if name not in shapes:
        raise ValueError(f"the shape of {name} is not known")
    return shapes[name]


# --- operations of a node's forward pass ---------------------------------------------------------


def _conv(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """Each output is a sum over channels of the group and the window."""
    window = _known(node.input[1], shapes)[1:]
    return 2 * math.prod(_known(node.output[0], shapes)) * math.prod(window)


def _conv_transpose(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """Each input goes to the channels of the group and the window."""
    window = _known(node.input[1], shapes)[1:]
    return 2 * math.prod(_known(node.input[0], shapes)) * math.prod(window)


def _product(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """Each output is a sum over the last axis of the left operand."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    depth = _known(node.input[0], shapes)[-2 if attributes.get("transA") else -1]
    return 2 * math.prod(_known(node.output[0], shapes)) * depth


def _recurrent(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> int:
    """A matrix of the input and one of the state, per step, direction and gate."""
    steps, batch, _ = _known(node.input[0], shapes)
    matrices = math.prod(_known(node.input[1], shapes)) + math.prod(_known(node.input[2], shapes))
    return 2 * steps * batch * matrices


FLOPS: dict[str, Callable[[onnx.NodeProto, Mapping[str, Shape]], int]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _product,
    "MatMul": _product,
    **dict.fromkeys(_CELLS, _recurrent),
}
