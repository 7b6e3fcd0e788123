"""Matrix products."""

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.operator import Emit, Node, Operator


def _gemm(node: Node, emit: Emit) -> str:
    """Alpha * A' * B' + beta * C, spelled out; the transposes are absorbed by a pass later on."""
    left, right = (
        emit("Transpose", name, perm=[1, 0]) if node.attrs.get(attr) else name
        for name, attr in zip(node.inputs, ("transA", "transB"), strict=False)
    )
    product = _scaled(emit, emit("MatMul", left, right), node.attrs.get("alpha", 1.0))
    if not node.has(2):
        return product
    return emit("Add", product, _scaled(emit, node.inputs[2], node.attrs.get("beta", 1.0)))


def _scaled(emit: Emit, name: str, factor: float) -> str:
    return name if factor == 1.0 else emit("Mul", name, float(factor))


def _matmul(builder: relax.BlockBuilder, node: Node, inputs: Sequence[Any]) -> relax.Expr:
    """A product with one matrix for all batches is one product of all rows.

    Otherwise the matrix's gradient would be made for each batch and then summed.
    """
    left, right = node.shape(0), node.shape(1)
    if len(right) != 2 or len(left) < 3:
        return R.matmul(*inputs)
    rows = builder.emit(R.reshape(inputs[0], [math.prod(left[:-1]), left[-1]]))
    return R.reshape(builder.emit(R.matmul(rows, inputs[1])), [*left[:-1], right[-1]])


OPERATORS: dict[str, Operator] = {
    "Gemm": Operator(expand=_gemm),
    "MatMul": Operator(convert=_matmul),
}
