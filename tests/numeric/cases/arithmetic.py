"""Elementwise arithmetic."""

import numpy as np

from tests.numeric.conftest import IMAGE, MATRIX, ints, node_model, text_model, weight

W, V = {"w": weight(10)}, {"v": weight(3, 10, seed=1)}


def number(value: float) -> dict[str, np.ndarray]:
    return {"e": np.float32(value)}


def bounds(low: float, high: float) -> dict[str, np.ndarray]:
    return {"low": np.float32(low), "high": np.float32(high)}


CASES = {
    "Abs": node_model("Abs", MATRIX),
    "Acos": node_model("Acos", MATRIX, before="Sin"),
    "Acosh": text_model("a = Exp (h) b = Add (a, e) y = Acosh (b)", MATRIX, constants=number(1.0)),
    "Add": node_model("Add", MATRIX, parameters=W),
    "Add-broadcast": node_model("Add", IMAGE, parameters={"w": weight(4, 1, 1)}),
    "Add-both": text_model(
        "a = Reshape (h, s) y = Add (a, w)",
        MATRIX,
        constants={"s": ints(3, 1, 10)},
        parameters={"w": weight(4, 1)},
    ),
    "Asin": node_model("Asin", MATRIX, before="Sin"),
    "Asinh": node_model("Asinh", MATRIX),
    "Atan": node_model("Atan", MATRIX),
    "Atanh": node_model("Atanh", MATRIX, before="Tanh"),
    "Ceil": text_model("a = Ceil (h) y = Mul (a, h)", MATRIX),
    "Clip": node_model("Clip", MATRIX, constants=bounds(-0.5, 0.75)),
    "Clip-none": node_model("Clip", MATRIX),
    "Clip-relu6": text_model(
        "a = Mul (h, e) y = Clip (a, low, high)", MATRIX, constants=bounds(0, 6) | number(5.0)
    ),
    "Clip-low": text_model("y = Clip (h, low)", MATRIX, constants=bounds(0.1, 0)),
    "Clip-high": text_model("y = Clip (h, , high)", MATRIX, constants=bounds(0, 0.1)),
    "Clip-attributes": node_model("Clip", MATRIX, opset=10, min=-0.5, max=0.75),
    "Clip-computed": text_model(
        "low = ReduceMin <keepdims=0> (w) top = ReduceMax <keepdims=0> (w) y = Clip (h, low, top)",
        MATRIX,
        parameters=W,
    ),
    "Clip-half-computed": text_model(
        "top = ReduceMax <keepdims=0> (w) y = Clip (h, low, top)",
        MATRIX,
        constants=bounds(0, 0),
        parameters=W,
    ),
    "Cos": node_model("Cos", MATRIX),
    "Cosh": node_model("Cosh", MATRIX),
    "Div": node_model("Div", MATRIX, parameters={"w": weight(10) + 2}),
    "Erf": node_model("Erf", MATRIX),
    "Exp": node_model("Exp", MATRIX),
    "Floor": text_model("a = Floor (h) y = Mul (a, h)", MATRIX),
    "Log": node_model("Log", MATRIX, before="Exp"),
    "Max": node_model("Max", MATRIX, parameters=W),
    "Max-one": node_model("Max", MATRIX),
    "Max-three": node_model("Max", MATRIX, parameters=W | V),
    "Mean": node_model("Mean", MATRIX, parameters=W | V),
    "Mean-one": node_model("Mean", MATRIX),
    "Min": node_model("Min", MATRIX, parameters={"w": weight(3, 1)}),
    "Min-three": node_model("Min", MATRIX, constants=number(0.2), parameters=W),
    "Mod": node_model("Mod", MATRIX, parameters={"w": weight(10) + 2}, fmod=1),
    "Mul": node_model("Mul", MATRIX, parameters=W),
    "Neg": node_model("Neg", MATRIX),
    "Pow": node_model("Pow", MATRIX, constants=number(-0.75), before="Exp"),
    "Pow-half": node_model("Pow", MATRIX, constants=number(0.5), before="Exp"),
    "Pow-minus-half": node_model("Pow", MATRIX, constants=number(-0.5), before="Exp"),
    "Pow-minus-one": node_model("Pow", MATRIX, constants=number(-1.0), before="Exp"),
    "Pow-one": node_model("Pow", MATRIX, constants=number(1.0)),
    "Pow-two": node_model("Pow", MATRIX, constants=number(2.0)),
    "Pow-three": node_model("Pow", MATRIX, constants=number(3.0)),
    "Pow-four": node_model("Pow", MATRIX, constants={"e": np.int64(4)}),
    "Pow-five": node_model("Pow", MATRIX, constants={"e": np.int64(5)}),
    "Pow-trained": node_model("Pow", MATRIX, parameters=W, before="Exp"),
    "Reciprocal": node_model("Reciprocal", MATRIX, before="Exp"),
    "Round": text_model("a = Round (h) y = Mul (a, h)", MATRIX),
    "Sign": text_model("a = Sign (h) y = Mul (a, h)", MATRIX),
    "Sin": node_model("Sin", MATRIX),
    "Sinh": node_model("Sinh", MATRIX),
    "Sqrt": node_model("Sqrt", MATRIX, before="Exp"),
    "Sub": node_model("Sub", MATRIX, parameters=W),
    "Sum": node_model("Sum", MATRIX, parameters=W | V),
    "Sum-one": node_model("Sum", MATRIX),
    "Tan": node_model("Tan", MATRIX, before="Tanh"),
}
