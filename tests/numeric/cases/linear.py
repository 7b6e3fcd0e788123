"""Matrix products."""

from tests.numeric.conftest import MATRIX, node_model, weight

CASES = {
    "Gemm": node_model("Gemm", MATRIX, parameters={"w": weight(10, 6), "b": weight(6)}),
    "Gemm-transB": node_model(
        "Gemm",
        MATRIX,
        parameters={"w": weight(6, 10), "b": weight(6)},
        transB=1,
        alpha=0.5,
        beta=2.0,
    ),
    "Gemm-transA": node_model("Gemm", (4, 3), parameters={"w": weight(4, 6)}, transA=1),
    "MatMul": node_model("MatMul", MATRIX, parameters={"w": weight(10, 6)}),
    "MatMul-batched": node_model("MatMul", (3, 2, 5), parameters={"w": weight(5, 6)}),
}
