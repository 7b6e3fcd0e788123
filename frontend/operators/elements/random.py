"""Random tensors: all are made of uniform numbers, each node of its own.

A node's own seed is not read: numbers follow from the seed of the step, its number and the node. A
`RandomUniform` from 0 to 1 of float32 is what the others expand to. One with the attribute `keep`,
which is ours, is a mask: see `frontend/patterns/random_masks.py`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from tvm import relax

from odtc.frontend.backward.random import random
from odtc.frontend.graph import numpy_dtype, onnx_dtype
from odtc.frontend.operators.operator import Emit, Node, Operator

KEEP = "keep"
_FLOAT = onnx.TensorProto.FLOAT
_FLOATS = ("float16", "float32", "float64")
_INTS = ("int32", "int64")


def low_and_high(node: Node) -> tuple[float, float]:
    """The range that uniform numbers are of."""
    return float(node.attrs.get("low", 0.0)), float(node.attrs.get("high", 1.0))


def dtype_of(node: Node) -> str:
    """Numpy dtype name of what is drawn: as the node says, else that of its input, else float32."""
    if "dtype" in node.attrs:
        return numpy_dtype(node.attrs["dtype"])
    return node.dtype() if node.inputs else "float32"


def _shape(node: Node) -> list[int]:
    return list(node.shape()) if node.inputs else list(node.attrs["shape"])


def _drawn_floats(node: Node) -> str:
    """The shape must be known, and what is drawn float16, float32 or float64."""
    if node.inputs and node.inputs[0] not in node.graph.shapes:
        return "the input's shape is not static"
    dtype = dtype_of(node)
    return "" if dtype in _FLOATS else f"numbers of {dtype} are not drawn"


def _chances(node: Node) -> str:
    """The shape must be known."""
    return "" if node.inputs[0] in node.graph.shapes else "the input's shape is not static"


def _base(emit: Emit, shape: Sequence[int]) -> str:
    """Uniform numbers in [0, 1), which stay as they are."""
    return emit("RandomUniform", shape=list(shape), dtype=_FLOAT)


def _cast(emit: Emit, name: str, dtype: str) -> str:
    return name if dtype == "float32" else emit("Cast", name, to=onnx_dtype(dtype))


def _uniform(node: Node, emit: Emit) -> str | None:
    (low, high), dtype = low_and_high(node), dtype_of(node)
    if not node.inputs and (low, high, dtype) == (0.0, 1.0, "float32"):
        return None
    scaled = emit("Mul", _base(emit, _shape(node)), np.float32(high - low))
    return _cast(emit, emit("Add", scaled, np.float32(low)), dtype)


def _normal(node: Node, emit: Emit) -> str:
    """Box and Muller, "A note on the generation of random normal deviates", 1958."""
    first, second = (_base(emit, _shape(node)) for _ in range(2))
    # The logarithm of what is never 0.
    log = emit("Log", emit("Sub", np.float32(1), first))
    radius = emit("Sqrt", emit("Mul", log, np.float32(-2)))
    angle = emit("Cos", emit("Mul", second, np.float32(2 * math.pi)))
    mean, scale = (node.attrs.get(name, other) for name, other in (("mean", 0.0), ("scale", 1.0)))
    scaled = emit("Mul", emit("Mul", radius, angle), np.float32(scale))
    return _cast(emit, emit("Add", scaled, np.float32(mean)), dtype_of(node))


def _bernoulli(node: Node, emit: Emit) -> str:
    """Ones where a number lies below the probability; nothing learns through it."""
    chance = _cast_float(node, emit)
    drawn = emit("Less", _base(emit, node.shape()), chance)
    return emit("Cast", drawn, to=node.attrs.get("dtype") or onnx_dtype(node.dtype()))


def _cast_float(node: Node, emit: Emit) -> str:
    name = node.inputs[0]
    return name if node.dtype() == "float32" else emit("Cast", name, to=_FLOAT)


def _drawn_classes(node: Node) -> str:
    """The shape must be known, and classes int32 or int64."""
    if node.inputs[0] not in node.graph.shapes:
        return "the input's shape is not static"
    dtype = _class_dtype(node)
    return "" if dtype in _INTS else f"classes of {dtype} are not drawn"


def _class_dtype(node: Node) -> str:
    return numpy_dtype(node.attrs.get("dtype", onnx.TensorProto.INT32))


def _multinomial(node: Node, emit: Emit) -> str:
    """The number of classes whose probabilities, added up, do not reach a uniform number.

    The last sum is what numbers are scaled by: so a class without probability is never drawn.
    """
    batch, classes = node.shape()
    samples = node.attrs.get("sample_size", 1)
    chances = emit("Softmax", _cast_float(node, emit), axis=1)
    sums = emit("CumSum", chances, np.array(1))
    total = emit("Gather", sums, np.array([classes - 1]), axis=1)
    drawn = emit("Mul", _base(emit, (batch, samples)), total)
    apart = [
        emit("Reshape", name, np.array(shape, np.int64))
        for name, shape in ((drawn, (batch, samples, 1)), (sums, (batch, 1, classes)))
    ]
    passed = emit("Not", emit("Less", *apart))
    count = emit("Cast", passed, to=_FLOAT)
    ones = np.ones((classes, 1), np.float32)
    number = emit("Reshape", emit("MatMul", count, ones), np.array((batch, samples), np.int64))
    return emit("Cast", number, to=onnx_dtype(_class_dtype(node)))


def _convert(_: relax.BlockBuilder, node: Node, __: Sequence[Any]) -> relax.Expr:
    outputs = [each.output[0] for each in node.graph.nodes if each.op_type == "RandomUniform"]
    stream = outputs.index(node.proto.output[0])
    return random(_shape(node), stream, node.graph.seed, node.attrs.get(KEEP, 0.0))


def mask_node(output: str, shape: Sequence[int], keep: float, name: str) -> onnx.NodeProto:
    """A mask of ones, a share of `keep`, and zeros."""
    return helper.make_node(
        "RandomUniform", [], [output], name, shape=list(shape), dtype=_FLOAT, keep=float(keep)
    )


OPERATORS: dict[str, Operator] = {
    "Bernoulli": Operator(condition=_chances, expand=_bernoulli),
    "Multinomial": Operator(condition=_drawn_classes, expand=_multinomial),
    "RandomNormal": Operator(condition=_drawn_floats, expand=_normal),
    "RandomNormalLike": Operator(condition=_drawn_floats, expand=_normal),
    "RandomUniform": Operator(condition=_drawn_floats, expand=_uniform, convert=_convert),
    "RandomUniformLike": Operator(condition=_drawn_floats, expand=_uniform),
}
