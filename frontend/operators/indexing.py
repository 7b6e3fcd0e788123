"""Operators that read and write by index.

Whatever their form, they become Relax's `take` along one axis, or its `scatter_nd` of whole rows:
an index into several dimensions is one into their product. So there are two kernels and two
gradients. An index below zero counts from the end; one that is out of bounds gives NaN.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.forms import reshape, slice_axis
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.shape import static_input

# Below all rows that there can be, and still an int64 once it is multiplied by a stride.
_NOWHERE = -(1 << 31)


def _static(node: Node) -> str:
    """The inputs' shapes must be known."""
    known = all(name in node.graph.shapes for name in node.inputs if name)
    return "" if known else "the inputs' shapes are not static"


def _gather_slice(node: Node, emit: Emit) -> str | None:
    """Constant indices one after the other are a slice, whose gradient is a copy."""
    indices, shape = node.constant(1), node.shape()
    axis = node.attrs.get("axis", 0) % len(shape)
    if indices is None or not indices.size:
        return None
    flat = np.where(indices < 0, indices + shape[axis], indices).ravel()
    if (flat != flat[0] + np.arange(flat.size)).any():
        return None
    start = int(flat[0])
    part = slice_axis(node, emit, node.inputs[0], axis, start, start + flat.size)
    return reshape(emit, part, *shape[:axis], *indices.shape, *shape[axis + 1 :])


def _gather(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    return R.take(*inputs, axis=node.attrs.get("axis", 0) % node.rank(), mode="wrap")


def _constant(value: Any) -> relax.Expr:
    return relax.const(np.asarray(value, np.int64), "int64")


def _wrapped(builder: relax.BlockBuilder, indices: relax.Expr, sizes: Any) -> relax.Expr:
    """Indices of int64, none below zero but those out of bounds. `sizes` broadcasts against them.

    Those out of bounds stay so, by far: whatever is added to them, no row is there.
    """
    if str(indices.ty.dtype) != "int64":
        indices = builder.emit(R.astype(indices, "int64"))
    low, high = (
        builder.emit(compare(indices, _constant(bound)))
        for compare, bound in ((R.less, -np.asarray(sizes)), (R.greater_equal, sizes))
    )
    outside = builder.emit(R.logical_or(low, high))
    inside = builder.emit(R.floor_mod(indices, _constant(sizes)))
    return builder.emit(R.where(outside, _constant(_NOWHERE), inside))


def _element_rows(
    builder: relax.BlockBuilder, indices: relax.Expr, shape: Sequence[int], axis: int
) -> relax.Expr:
    """Places in the flat data of what Gather- and ScatterElements address along one axis."""
    taken = [int(size) for size in indices.ty.shape]
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    grid = np.indices(taken, sparse=True)
    base = sum(grid[at] * strides[at] for at in range(len(shape)) if at != axis)
    along = builder.emit(
        R.multiply(_wrapped(builder, indices, shape[axis]), _constant(strides[axis]))
    )
    flat = builder.emit(R.add(along, _constant(np.broadcast_to(base, taken))))
    return builder.emit(R.reshape(flat, (math.prod(taken),)))


def _nd_rows(
    builder: relax.BlockBuilder, indices: relax.Expr, shape: Sequence[int], batch_dims: int = 0
) -> tuple[relax.Expr, int]:
    """Rows of the data that the last dimension of the indices addresses, and a row's length."""
    listed = [int(size) for size in indices.ty.shape]
    depth = batch_dims + listed[-1]
    strides = [math.prod(shape[at + 1 : depth]) for at in range(depth)]
    wrapped = _wrapped(builder, indices, shape[batch_dims:depth])
    scaled = builder.emit(R.multiply(wrapped, _constant(strides[batch_dims:])))
    flat = builder.emit(R.sum(scaled, -1))
    if batch_dims:
        grid = np.indices(listed[:-1], sparse=True)
        base = sum(grid[at] * strides[at] for at in range(batch_dims))
        flat = builder.emit(R.add(flat, _constant(np.broadcast_to(base, listed[:-1]))))
    return builder.emit(R.reshape(flat, (math.prod(listed[:-1]),))), math.prod(shape[depth:])


def _take_rows(
    builder: relax.BlockBuilder, data: relax.Expr, rows: relax.Expr, width: int
) -> relax.Expr:
    count = math.prod(int(size) for size in data.ty.shape) // width
    matrix = builder.emit(R.reshape(data, (count, width)))
    return builder.emit(R.take(matrix, rows, axis=0, mode="wrap"))


def _gather_elements(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    axis = node.attrs.get("axis", 0) % node.rank()
    rows = _element_rows(builder, inputs[1], node.shape(), axis)
    return R.reshape(_take_rows(builder, inputs[0], rows, 1), node.shape(1))


def _gather_nd(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    shape, listed = node.shape(), node.shape(1)
    batch_dims = node.attrs.get("batch_dims", 0)
    rows, width = _nd_rows(builder, inputs[1], shape, batch_dims)
    result = (*listed[:-1], *shape[batch_dims + listed[-1] :])
    return R.reshape(_take_rows(builder, inputs[0], rows, width), result)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _scatters(node: Node) -> str:
    """The inputs' shapes must be known, and the reduction one of ONNX's."""
    reduction = node.attrs.get("reduction", "none")
    if reduction not in _REDUCTIONS:
        return f"reduction {reduction!r} is not one of {', '.join(_REDUCTIONS)}"
    return _static(node)


def _put_rows(
    builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any], rows: relax.Expr, width: int
) -> relax.Expr:
    shape = node.shape()
    matrix = builder.emit(R.reshape(inputs[0], (math.prod(shape) // width, width)))
    count = int(rows.ty.shape[0])
    listed = builder.emit(R.reshape(rows, (count, 1)))
    updates = builder.emit(R.reshape(inputs[2], (count, width)))
    reduction = _REDUCTIONS[node.attrs.get("reduction", "none")]
    return R.reshape(builder.emit(R.scatter_nd(matrix, listed, updates, reduction)), shape)


def _scatter_elements(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    axis = node.attrs.get("axis", 0) % node.rank()
    rows = _element_rows(builder, inputs[1], node.shape(), axis)
    return _put_rows(builder, node, inputs, rows, 1)


def _scatter_nd(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    rows, width = _nd_rows(builder, inputs[1], node.shape())
    return _put_rows(builder, node, inputs, rows, width)


def _constant_depth(node: Node) -> str:
    """The depth must be constant."""
    return "" if node.constant(1) is not None else "the depth must be constant"


def _one_hot(node: Node, emit: Emit) -> str:
    """On where the index is a class, counted from either end; off everywhere else."""
    depth = (node.ints("", 1) or [0])[0]
    rank = node.rank() + 1
    axis = node.attrs.get("axis", -1) % rank
    shape = list(node.shape())
    shape.insert(axis, 1)
    indices = emit("Cast", reshape(emit, node.inputs[0], *shape), to=7)
    classes = np.arange(depth).reshape([-1 if at == axis else 1 for at in range(rank)])
    hit = emit("Or", emit("Equal", indices, classes), emit("Equal", indices, classes - depth))
    off, on = (
        reshape(emit, slice_axis(node, emit, node.inputs[2], 0, at, at + 1)) for at in (0, 1)
    )
    return emit("Where", hit, on, off)


def _constant_diagonal(node: Node) -> str:
    """The diagonal must be constant."""
    if node.has(1) and node.constant(1) is None:
        return "the diagonal must be constant"
    return static_input(node)


def _trilu(node: Node, emit: Emit) -> str:
    """The data where a constant triangle holds, zero elsewhere, whatever stands there."""
    k = (node.ints("", 1) or [0])[0]
    ones = np.ones(node.shape()[-2:], bool)
    triangle = np.triu(ones, k) if node.attrs.get("upper", 1) else np.tril(ones, k)
    return emit("Where", triangle, node.inputs[0], np.zeros((), node.dtype()))


_SCATTER_ELEMENTS = Operator(condition=_scatters, convert=_scatter_elements)

OPERATORS: dict[str, Operator] = {
    "Gather": Operator(condition=_static, expand=_gather_slice, convert=_gather),
    "GatherElements": Operator(condition=_static, convert=_gather_elements),
    "GatherND": Operator(condition=_static, convert=_gather_nd),
    "OneHot": Operator(condition=_constant_depth, expand=_one_hot),
    "Scatter": _SCATTER_ELEMENTS,
    "ScatterElements": _SCATTER_ELEMENTS,
    "ScatterND": Operator(condition=_scatters, convert=_scatter_nd),
    "Trilu": Operator(condition=_constant_diagonal, expand=_trilu),
}
