"""Reductions over axes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.dialect.operator import RelaxOperator
from odtc.dialect.rows.reductions import log_sum_exp, norm
from odtc.frontend.operators.operator import Convert, Emit, Expand, Node, Operator

# Since these opsets the axes are an input; before, an attribute.
_AXES_INPUT_SINCE = {"ReduceSum": 13}


def reduce(
    node: Node, emit: Emit, op_type: str, data: str, axes: list[int], keepdims: int = 1
) -> str:
    """Emits a reduction in the form of the node's opset; over no axes it is what it reduces."""
    if not axes:
        # Operators take no axes for all of them.
        return data
    if node.opset < _AXES_INPUT_SINCE.get(op_type, 18):
        return emit(op_type, data, axes=axes, keepdims=keepdims)
    return emit(op_type, data, np.array(axes, np.int64), keepdims=keepdims)


def reduced_axes(node: Node) -> list[int]:
    """The reduced axes in order; none means all, unless `noop_with_empty_axes` is set."""
    given = node.ints("axes", 1)
    if not given:
        return [] if node.attrs.get("noop_with_empty_axes") else list(range(node.rank()))
    return sorted(axis % node.rank() for axis in given)


def _constant_axes(node: Node) -> str:
    """The axes must be constant."""
    return "the axes must be constant" if node.has(1) and node.constant(1) is None else ""


def _reduction(build: Callable[..., relax.Expr]) -> Convert:
    def convert(_: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
        axes = reduced_axes(node)
        keepdims = bool(node.attrs.get("keepdims", 1))
        if not axes:
            return inputs[0]
        if node.dtype() == "bool":
            return R.astype(build(R.astype(inputs[0], "uint8"), axes, keepdims), "bool")
        return build(inputs[0], axes, keepdims)

    return convert


def _of_our_own(operator: RelaxOperator) -> Callable[..., relax.Expr]:
    return lambda data, axes, keepdims: operator(data, axis=list(axes), keepdims=keepdims)


def _in_steps(before: str | None, op_type: str, after: str | None) -> Expand:
    """A reduction of what one operator makes of the input; another one makes the result of it."""

    def expand(node: Node, emit: Emit) -> str:
        data, axes = node.inputs[0], reduced_axes(node)
        if before:
            data = emit(before, data, *([2.0] if before == "Pow" else []))
        if axes:
            data = reduce(node, emit, op_type, data, axes, node.attrs.get("keepdims", 1))
        return emit(after, data) if after else data

    return expand


def _trained(convert: Convert) -> Operator:
    return Operator(condition=_constant_axes, convert=convert)


def _expanded(before: str | None, op_type: str, after: str | None) -> Operator:
    return Operator(condition=_constant_axes, expand=_in_steps(before, op_type, after))


OPERATORS: dict[str, Operator] = {
    "ReduceL1": _expanded("Abs", "ReduceSum", None),
    "ReduceL2": _trained(_reduction(_of_our_own(norm))),
    "ReduceLogSum": _expanded(None, "ReduceSum", "Log"),
    "ReduceLogSumExp": _trained(_reduction(_of_our_own(log_sum_exp))),
    "ReduceMax": _trained(_reduction(R.max)),
    "ReduceMean": _trained(_reduction(R.mean)),
    "ReduceMin": _trained(_reduction(R.min)),
    "ReduceProd": _trained(_reduction(R.prod)),
    "ReduceSum": _trained(_reduction(R.sum)),
    "ReduceSumSquare": _expanded("Pow", "ReduceSum", None),
}
