"""Matrix products."""

from tvm.relax import op as R  # noqa: N812

from odtc.frontend.operators.operator import Emit, Node, Operator, binary


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


OPERATORS: dict[str, Operator] = {
    "Gemm": Operator(expand=_gemm),
    "MatMul": Operator(convert=binary(R.matmul)),
}
