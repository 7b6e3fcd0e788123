"""Matrix products."""

from tests.numeric.conftest import MATRIX, node_model, text_model, weight

CASES = {
    "Gemm": node_model("Gemm", MATRIX, parameters={"w": weight(10, 6), "b": weight(6)}),
    "Gemm-column": text_model(
        "d = Gemm (h, w, b) y = Mul (d, d)",
        MATRIX,
        parameters={"w": weight(10, 6), "b": weight(3, 1)},
    ),
    "Gemm-transA": node_model("Gemm", (4, 3), parameters={"w": weight(4, 6)}, transA=1),
    "Gemm-transB": node_model(
        "Gemm",
        MATRIX,
        parameters={"w": weight(6, 10), "b": weight(6)},
        transB=1,
        alpha=0.5,
        beta=2.0,
    ),
    "MatMul": node_model("MatMul", MATRIX, parameters={"w": weight(10, 6)}),
    "MatMul-rows": node_model("MatMul", (3, 2, 5), parameters={"w": weight(5, 6)}),
    "MatMul-images": node_model("MatMul", (3, 2, 4, 5), parameters={"w": weight(5, 6)}),
    "MatMul-batches": node_model("MatMul", (3, 2, 5), parameters={"w": weight(3, 5, 6)}),
    "MatMul-broadcast": node_model("MatMul", (3, 2, 4, 5), parameters={"w": weight(2, 5, 6)}),
    "MatMul-both": node_model("MatMul", (3, 1, 4, 5), parameters={"w": weight(2, 5, 6)}),
    "MatMul-left": text_model("y = MatMul (w, h)", (3, 4, 5), parameters={"w": weight(2, 4)}),
    "MatMul-vector": node_model("MatMul", (3, 2, 5), parameters={"w": weight(5)}),
    "MatMul-vector-left": text_model("y = MatMul (w, h)", (3, 4, 5), parameters={"w": weight(4)}),
    "MatMul-vectors": text_model(
        "d = MatMul (w, v) y = Mul (d, h)",
        MATRIX,
        parameters={"w": weight(4), "v": weight(4, seed=1)},
    ),
}
