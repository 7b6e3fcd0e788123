"""Normalisations and dropout."""

from tests.numeric.conftest import MATRIX, node_model

# ONNX's reference implementation of LRN loops over the batch where it means the channels.
SQUARE = (4, 4, 5, 3)

CASES = {
    "Dropout": node_model("Dropout", MATRIX),
    "LRN": node_model("LRN", SQUARE, size=3, alpha=0.5, beta=0.75, bias=1.5),
    "LRN-even": node_model("LRN", SQUARE, size=2, alpha=0.5),
}
