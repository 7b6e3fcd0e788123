"""Operators that only move or rename elements."""

from tests.numeric.conftest import IMAGE, MATRIX, ints, node_model, weight

CASES = {
    "Concat": node_model("Concat", IMAGE, parameters={"w": weight(3, 2, 7, 6)}, axis=1),
    "Concat-one": node_model("Concat", IMAGE, axis=1),
    "Flatten": node_model("Flatten", IMAGE, axis=1),
    "Identity": node_model("Identity", MATRIX),
    "Reshape": node_model("Reshape", IMAGE, constants={"s": ints(0, 2, -1)}),
    "Squeeze": node_model("Squeeze", (3, 1, 5), constants={"axes": ints(1)}),
    "Transpose": node_model("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    "Unsqueeze": node_model("Unsqueeze", MATRIX, constants={"axes": ints(1)}),
}
