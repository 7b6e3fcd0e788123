"""Operators that rename, join, cut or repeat elements."""

from tests.numeric.conftest import IMAGE, MATRIX, ints, node_model, text_model, weight

# Both parts of a Split, in the other order.
JOIN = "ra = Flatten (a) rb = Flatten (b) y = Concat <axis = 1> (rb, ra)"

CASES = {
    "Concat": node_model("Concat", IMAGE, parameters={"w": weight(3, 2, 7, 6)}, axis=1),
    "Concat-one": node_model("Concat", MATRIX, axis=-1),
    "Concat-many": node_model(
        "Concat", MATRIX, parameters={f"w{i}": weight(3, 1 + i, seed=i) for i in range(9)}, axis=-1
    ),
    "Expand": node_model("Expand", (3, 1, 4), constants={"s": ints(2, 1, 5, 1)}),
    "Expand-same": node_model("Expand", MATRIX, constants={"s": ints(1, 10)}),
    "Flatten": node_model("Flatten", IMAGE, axis=1),
    "Identity": node_model("Identity", MATRIX),
    "Reshape": node_model("Reshape", IMAGE, constants={"s": ints(0, 2, -1)}),
    "Split": text_model(
        "a, b = Split <axis = 1> (h, s) " + JOIN, IMAGE, constants={"s": ints(1, 3)}
    ),
    "Split-attribute": text_model(
        "a, b = Split <axis = 2, split = [3, 4]> (h) " + JOIN, IMAGE, opset=11
    ),
    "Split-uneven": text_model(
        "a, b = Split <axis = -1, num_outputs = 2> (h) " + JOIN, (3, 9), opset=18
    ),
    "Split-one": text_model("a, b = Split <axis = 1> (h) y = Tanh (b)", MATRIX),
    "Squeeze": node_model("Squeeze", (3, 1, 5), constants={"axes": ints(1)}),
    "Tile": node_model("Tile", (3, 2, 5), constants={"r": ints(1, 3, 2)}),
    "Transpose": node_model("Transpose", IMAGE, perm=[0, 2, 3, 1]),
    "Transpose-default": node_model("Transpose", (4, 3, 5)),
    "Unsqueeze": node_model("Unsqueeze", MATRIX, constants={"axes": ints(1)}),
}
