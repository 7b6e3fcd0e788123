"""Gradients of reading and writing by index; indices have none."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812
from tvm.relax.op.grad import no_grad, take_backward

from odtc.dialect.adjoints import number
from odtc.dialect.rule import Rule


def take(
    _: relax.Var, call: relax.Call, grad: relax.Expr, __: relax.BlockBuilder
) -> list[relax.Expr]:
    """Adjoints of what was read are added up where it was read from."""
    data, indices = call.args
    return [take_backward(grad, data, indices, call.attrs.axis), no_grad(indices)]


def scatter_nd(
    result: relax.Var, call: relax.Call, grad: relax.Expr, builder: relax.BlockBuilder
) -> list[relax.Expr]:
    """Of a scatter of rows; those that several updates go to are PyTorch's of `scatter_reduce`."""
    reduction = str(call.attrs.reduction)
    adjoints = _BY_REDUCTION[reduction](_Scatter(builder, call, result), grad)
    return [adjoints[0], no_grad(call.args[1]), adjoints[1]]


@dataclass(frozen=True)
class _Scatter:
    """A scatter of rows, and how to go between its rows and its updates."""

    builder: relax.BlockBuilder
    call: relax.Call
    result: relax.Var

    @property
    def data(self) -> relax.Expr:
        return self.call.args[0]

    @property
    def updates(self) -> relax.Expr:
        return self.call.args[2]

    def emit(self, expression: relax.Expr) -> relax.Var:
        return self.builder.emit(expression)

    def read(self, rows: relax.Expr) -> relax.Var:
        """Reads the tensor at the places of the updates."""
        indices = self.call.args[1]
        flat = self.emit(R.reshape(indices, (int(indices.ty.shape[0]),)))
        return self.emit(R.take(rows, flat, axis=0, mode="wrap"))

    def write(self, rows: relax.Expr, updates: relax.Expr, reduction: str) -> relax.Var:
        """Other updates to other rows, at the same places."""
        return self.emit(R.scatter_nd(rows, self.call.args[1], updates, reduction))


def _overwritten(scatter: _Scatter, grad: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Updates get the adjoints of the rows that they went to; overwritten data gets none there."""
    updates = scatter.updates
    zeros = scatter.emit(R.zeros(updates.ty.shape, updates.ty.dtype))
    return scatter.write(grad, zeros, "update"), scatter.read(grad)


def _added(scatter: _Scatter, grad: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    return grad, scatter.read(grad)


def _extreme(scatter: _Scatter, grad: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """All that are the largest or smallest share the adjoint evenly."""
    dtype, zero = str(scatter.data.ty.dtype), number(0, scatter.data)
    data_is = scatter.emit(R.equal(scatter.data, scatter.result))
    update_is = scatter.emit(R.equal(scatter.updates, scatter.read(scatter.result)))
    ones, found = (scatter.emit(R.astype(each, dtype)) for each in (data_is, update_is))
    share = scatter.emit(R.divide(grad, scatter.write(ones, found, "add")))
    return R.where(data_is, share, zero), R.where(update_is, scatter.read(share), zero)


def _multiplied(scatter: _Scatter, grad: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Each factor gets the product of the others, also where some are zero."""
    data, updates, emit = scatter.data, scatter.updates, scatter.emit
    dtype, zero, one = str(data.ty.dtype), number(0, data), number(1, data)
    ones, zeros = (emit(make(data.ty.shape, dtype)) for make in (R.ones, R.zeros))
    empty = emit(R.equal(updates, zero))
    own = emit(R.astype(empty, dtype))
    others = emit(R.where(empty, one, updates))
    # Of updates that are not zero, and how many are.
    rest = scatter.write(ones, others, "mul")
    found = scatter.write(zeros, own, "add")
    # For an update to have a slope, no zeros there may be but itself.
    alone = emit(R.equal(scatter.read(found), own))
    slope = R.where(alone, R.divide(scatter.read(emit(R.multiply(rest, data))), others), zero)
    whole = emit(R.where(R.equal(found, zero), rest, zero))
    return R.multiply(grad, whole), R.multiply(scatter.read(grad), slope)


_BY_REDUCTION: dict[str, Callable[[_Scatter, relax.Expr], tuple[relax.Expr, relax.Expr]]] = {
    "update": _overwritten,
    "add": _added,
    "mul": _multiplied,
    "min": _extreme,
    "max": _extreme,
}


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
