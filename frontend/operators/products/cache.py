"""Writing new steps into a cache of keys or values."""

import math

import numpy as np

from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.operator import Emit, Node, Operator


def _cached(node: Node) -> str:
    """The shapes must be known, and the axis not the batch."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    axis = node.attrs.get("axis", -2) % node.rank()
    cache, update = list(node.shape()), list(node.shape(1))
    if len(update) != len(cache) or update[axis] > cache[axis]:
        return f"an update of shape {update} does not fit a cache of shape {cache}"
    cache[axis] = update[axis]
    if cache != update or (node.has(2) and node.shape(2) != (cache[0],)):
        return f"an update of shape {update} does not fit a cache of shape {list(node.shape())}"
    mode = node.attrs.get("mode", "linear")
    if mode not in ("linear", "circular"):
        return f"mode {mode!r} is neither linear nor circular"
    return "" if axis else "the axis is that of the batch"


def _tensor_scatter(node: Node, emit: Emit) -> str:
    """Each place of the cache reads the step that is written to it, if one is."""
    shape, axis = node.shape(), node.attrs.get("axis", -2) % node.rank()
    batch, length, steps = shape[0], shape[axis], node.shape(1)[axis]
    order = [0, axis, *(at for at in range(1, len(shape)) if at != axis)]
    rest = [shape[at] for at in order[2:]]
    width = math.prod(rest)
    cache, update = (
        reshape(emit, emit("Transpose", name, perm=order), batch, size, width)
        for name, size in zip(node.inputs, (length, steps), strict=False)
    )
    first = node.inputs[2] if node.has(2) else np.zeros(batch, np.int64)
    places = np.arange(length).reshape(1, length, 1)
    source = emit("Sub", places, emit("Reshape", first, np.array([batch, 1, 1])))
    if node.attrs.get("mode") == "circular":
        source = emit("Mod", source, length)
    written = emit("And", emit("Less", source, steps), emit("Greater", source, -1))
    index = emit("Clip", source, np.array(0), np.array(steps - 1))
    result = emit("Where", written, emit("GatherND", update, index, batch_dims=1), cache)
    apart = reshape(emit, result, batch, length, *rest)
    return emit("Transpose", apart, perm=[order.index(at) for at in range(len(shape))])


OPERATORS: dict[str, Operator] = {
    "TensorScatter": Operator(condition=_cached, expand=_tensor_scatter),
}
