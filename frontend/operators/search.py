"""The largest and smallest elements, and where they are. Places carry no gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.operator import Convert, Node, Operator
from odtc.frontend.operators.shape import static_input


def _place(find: Callable[..., relax.Expr]) -> Convert:
    def convert(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
        axis = node.attrs.get("axis", 0) % node.rank()
        keepdims = bool(node.attrs.get("keepdims", 1))
        if not node.attrs.get("select_last_index"):
            return find(inputs[0], axis, keepdims)
        first = builder.emit(find(builder.emit(R.flip(inputs[0], axis)), axis, keepdims))
        last = relax.const(np.int64(node.shape()[axis] - 1), "int64")
        return R.subtract(last, first)

    return convert


def _constant_count(node: Node) -> str:
    """The input's shape must be known, and k constant."""
    return static_input(node) if node.ints("", 1) or "k" in node.attrs else "k must be constant"


def _top_k(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> list[relax.Expr]:
    count = node.attrs.get("k") or (node.ints("", 1) or [1])[0]
    found = builder.emit(
        R.topk(
            inputs[0],
            count,
            axis=node.attrs.get("axis", -1) % node.rank(),
            ret_type="both",
            largest=bool(node.attrs.get("largest", 1)),
            dtype="int64",
        )
    )
    return [relax.TupleGetItem(found, slot) for slot in range(2)]


OPERATORS: dict[str, Operator] = {
    "ArgMax": Operator(condition=static_input, convert=_place(R.argmax)),
    "ArgMin": Operator(condition=static_input, convert=_place(R.argmin)),
    "TopK": Operator(condition=_constant_count, convert=_top_k),
}
