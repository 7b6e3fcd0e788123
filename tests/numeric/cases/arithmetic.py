"""Elementwise arithmetic."""

import numpy as np

from tests.numeric.conftest import IMAGE, MATRIX, node_model, weight

CASES = {
    "Abs": node_model("Abs", MATRIX),
    "Add": node_model("Add", MATRIX, parameters={"w": weight(10)}),
    "Add-broadcast": node_model("Add", IMAGE, parameters={"w": weight(4, 1, 1)}),
    "Cos": node_model("Cos", MATRIX),
    "Div": node_model("Div", MATRIX, parameters={"w": weight(10) + 2}),
    "Exp": node_model("Exp", MATRIX),
    "Log": node_model("Log", MATRIX, before="Exp"),
    "Mul": node_model("Mul", MATRIX, parameters={"w": weight(10)}),
    "Neg": node_model("Neg", MATRIX),
    "Pow": node_model("Pow", MATRIX, constants={"e": np.float32(-0.75)}, before="Exp"),
    "Sin": node_model("Sin", MATRIX),
    "Sqrt": node_model("Sqrt", MATRIX, before="Exp"),
    "Sub": node_model("Sub", MATRIX, parameters={"w": weight(10)}),
    "Sum": node_model("Sum", MATRIX, parameters={"w": weight(10), "v": weight(3, 10)}),
    "Sum-one": node_model("Sum", MATRIX),
}
