"""Operators that rename, join, cut or repeat elements, and those that ask for a shape."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from onnx import helper, numpy_helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.operator import Convert, Emit, Node, Operator


def static_output(node: Node) -> str:
    """The output's shape must be known."""
    return "" if node.output_shape() is not None else "the output's shape is not static"


def static_input(node: Node) -> str:
    """The input's shape must be known."""
    known = node.proto.input[0] in node.graph.shapes
    return "" if known else "the input's shape is not static"


def _same_elements(node: Node) -> str:
    """The output's shape must be known, and hold what the input does."""
    shape, before = node.output_shape(), node.graph.shapes.get(node.proto.input[0])
    if shape is None or before is None or math.prod(shape) == math.prod(before):
        return static_output(node)
    return (
        f"{list(before)} cannot become {list(shape)}: the batch, or another size that the model "
        "was exported with, is written into the new shape"
    )


def _to_reshape(node: Node, emit: Emit) -> str | None:
    """Flatten, Squeeze, Unsqueeze and computed reshapes become one Reshape to a static shape."""
    shape = node.output_shape()
    if shape is None or (node.proto.op_type == "Reshape" and node.ints("", 1) == list(shape)):
        return None
    return reshape(emit, node.inputs[0], *shape)


def _reshape(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    return R.reshape(inputs[0], node.output_shape())


def _concat(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    if len(inputs) == 1:
        return inputs[0]
    return R.concat(list(inputs), axis=node.attrs.get("axis", 1) % node.rank())


def _expand(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    shape = node.output_shape()
    return inputs[0] if shape == node.shape() else R.broadcast_to(inputs[0], shape)


def _transpose(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    order = node.attrs.get("perm") or list(range(node.rank()))[::-1]
    return R.permute_dims(inputs[0], order)


def _constant_repeats(node: Node) -> str:
    """The repeats must be constant."""
    return "" if node.ints("", 1) is not None else "the repeats must be constant"


def _tile(node: Node, emit: Emit) -> str:
    """Every dimension becomes (repeats, size), of which the first is broadcast."""
    shape, repeats = node.shape(), node.ints("", 1) or []
    apart = [size for n in shape for size in (1, n)]
    wide = [size for n, r in zip(shape, repeats, strict=True) for size in (r, n)]
    expanded = emit("Expand", reshape(emit, node.inputs[0], *apart), np.array(wide, np.int64))
    return reshape(emit, expanded, *(n * r for n, r in zip(shape, repeats, strict=True)))


def _constant_split(node: Node) -> str:
    """The sizes of the parts must be constant."""
    if node.has(1) and node.constant(1) is None:
        return "the sizes of the parts must be constant"
    return static_input(node)


def split_sizes(node: Node) -> list[int]:
    """Sizes of the parts of a Split: as given, or even but for a smaller last one."""
    given = node.ints("split", 1)
    if given is not None:
        return given
    size = node.shape()[node.attrs.get("axis", 0)]
    count = node.attrs.get("num_outputs", len(node.proto.output))
    chunk = -(-size // count)
    return [min(chunk, size - start) for start in range(0, size, chunk)]


def _split(
    builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]
) -> relax.Expr | list[relax.Expr]:
    sizes = split_sizes(node)
    if len(sizes) == 1:
        return inputs[0]
    cuts = list(accumulate(sizes))[:-1]
    parts = builder.emit(R.split(inputs[0], cuts, node.attrs.get("axis", 0) % node.rank()))
    return [relax.TupleGetItem(parts, slot) for slot in range(len(sizes))]


def _shape(node: Node, _: Emit) -> str:
    shape, rank = node.shape(), node.rank()
    window = slice(node.attrs.get("start", 0), node.attrs.get("end", rank))
    return node.graph.add_constant("shape", np.array(shape[window], np.int64))


def _size(node: Node, _: Emit) -> str:
    return node.graph.add_constant("size", np.array(np.prod(node.shape(), dtype=np.int64)))


def _constant_of_shape(node: Node, emit: Emit) -> str:
    given = node.attrs.get("value")
    value = np.zeros(1, np.float32) if given is None else numpy_helper.to_array(given)
    return emit("Expand", value, np.array(node.output_shape(), np.int64))


def _constant_range(node: Node) -> str:
    """Start, limit and delta must be constant."""
    known = all(node.constant(slot) is not None for slot in range(3))
    return "" if known else "start, limit and delta must be constant"


def _range(node: Node, _: Emit) -> str:
    start, limit, delta = (node.number("", slot) or 0 for slot in range(3))
    values = np.arange(start, limit, delta, dtype=node.dtype())
    return node.graph.add_constant("range", values)


def _eye_like(node: Node, _: Emit) -> str:
    rows, columns = node.shape()
    given = node.attrs.get("dtype")
    dtype = helper.tensor_dtype_to_np_dtype(given) if given else np.dtype(node.dtype())
    return node.graph.add_constant("eye", np.eye(rows, columns, node.attrs.get("k", 0), dtype))


def _static(convert: Convert) -> Operator:
    return Operator(condition=static_output, convert=convert)


_RESHAPE = Operator(condition=_same_elements, expand=_to_reshape, convert=_reshape)

OPERATORS: dict[str, Operator] = {
    "Concat": Operator(condition=static_input, convert=_concat),
    "ConstantOfShape": Operator(condition=static_output, expand=_constant_of_shape),
    "Expand": _static(_expand),
    "EyeLike": Operator(condition=static_input, expand=_eye_like),
    "Flatten": _RESHAPE,
    "Identity": Operator(expand=lambda node, _: node.inputs[0]),
    "Range": Operator(condition=_constant_range, expand=_range),
    "Reshape": _RESHAPE,
    "Shape": Operator(condition=static_input, expand=_shape),
    "Size": Operator(condition=static_input, expand=_size),
    "Split": Operator(condition=_constant_split, convert=_split),
    "Squeeze": _RESHAPE,
    "Tile": Operator(condition=_constant_repeats, expand=_tile),
    "Transpose": Operator(condition=static_input, convert=_transpose),
    "Unsqueeze": _RESHAPE,
}
