"""Gradients of reading and writing by index; indices have none."""

import math

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad, take_backward

from odtc.frontend.gradients.rule import Rule


def take(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """Adjoints of what was read are added up where it was read from."""
    data, indices = call.args
    return [take_backward(grad, data, indices, call.attrs.axis), no_grad(indices)]


def scatter_nd(
    _: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Updates get the adjoints of the rows that they went to; overwritten data gets none there."""
    _data, indices, updates = call.args
    rows = builder.emit(R.reshape(indices, (int(indices.ty.shape[0]),)))
    taken = R.take(grad, rows, axis=0, mode="wrap")
    if str(call.attrs.reduction) == "add":
        return [grad, no_grad(indices), taken]
    zeros = builder.emit(R.zeros(updates.ty.shape, updates.ty.dtype))
    kept = R.scatter_nd(grad, indices, zeros, "update")
    return [kept, no_grad(indices), taken]


def topk(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """The elements that were picked get their adjoint."""
    data = call.args[0]
    shape, axis = [int(size) for size in data.ty.shape], int(call.attrs.axis)
    adjoint = grad.fields[0] if isinstance(grad, relax.Tuple) else relax.TupleGetItem(grad, 0)
    adjoint = builder.emit(adjoint)
    places = builder.emit(relax.TupleGetItem(result, 1))
    taken = [int(size) for size in places.ty.shape]
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    grid = np.indices(taken, sparse=True)
    base = sum(grid[at] * strides[at] for at in range(len(shape)) if at != axis)
    along = builder.emit(R.multiply(places, relax.const(np.int64(strides[axis]), "int64")))
    rows = builder.emit(R.add(along, relax.const(np.broadcast_to(base, taken).copy(), "int64")))
    flat = builder.emit(R.reshape(rows, (math.prod(taken), 1)))
    column = builder.emit(R.reshape(adjoint, (math.prod(taken), 1)))
    zeros = builder.emit(R.zeros((math.prod(shape), 1), data.ty.dtype))
    return [R.reshape(builder.emit(R.scatter_nd(zeros, flat, column, "add")), shape)]


RULES: dict[str, Rule] = {
    "relax.scatter_nd": scatter_nd,
    "relax.take": take,
    "relax.topk": topk,
}
