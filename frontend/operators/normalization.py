"""Normalisations and dropout."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.graph import describe_node
from odtc.frontend.operators.convolution import two_dimensional
from odtc.frontend.operators.operator import Emit, Node, Operator


def _first_output(node: Node) -> str:
    read = [name for slot, name in enumerate(node.proto.output) if slot and node.is_read(slot)]
    return f"only its first output can be used; {read[0]!r} is read too" if read else ""


def _batch_norm(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> list:
    """ONNX keeps `momentum` of the old statistics, Relax takes `momentum` of the new ones."""
    normal = R.nn.batch_norm(
        *inputs,
        axis=1,
        epsilon=node.attrs.get("epsilon", 1e-5),
        momentum=1.0 - node.attrs.get("momentum", 0.9),
        training=False,
    )
    return [relax.TupleGetItem(normal, 0)]


def _dropout(node: Node, _: Emit) -> str:
    node.graph.notes.append(
        f"{describe_node(node.proto)}: dropout is not applied; this version trains without"
    )
    return node.inputs[0]


def _lrn(node: Node, emit: Emit) -> str:
    """X / (bias + alpha/size * window sum of x²)^beta.

    The sum over a window of channels is a 1×1 convolution with a constant band matrix: it has a
    right gradient, where the pooling that the importer makes of it has none.
    """
    data, channels, size = node.inputs[0], node.shape()[1], node.attrs["size"]
    offset = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = (offset >= -((size - 1) // 2)) & (offset <= size // 2)
    weight = (band * (node.attrs.get("alpha", 1e-4) / size)).astype(np.float32)
    window = emit("Conv", emit("Mul", data, data), weight[:, :, None, None])
    base = emit("Add", window, float(node.attrs.get("bias", 1.0)))
    return emit("Div", data, emit("Pow", base, float(node.attrs.get("beta", 0.75))))


OPERATORS: dict[str, Operator] = {
    "BatchNormalization": Operator(condition=_first_output, convert=_batch_norm),
    "Dropout": Operator(condition=_first_output, expand=_dropout),
    "LRN": Operator(condition=two_dimensional, expand=_lrn),
}
