"""Activations."""

import numpy as np

from tests.numeric.conftest import IMAGE, MATRIX, node_model, text_model, weight

CUBE = (3, 2, 5)
# As exporters spell them out.
GELU = {name: np.float32(value) for name, value in dict(half=0.5, one=1, root=2**0.5).items()}
GELU_TANH = {
    name: np.float32(value)
    for name, value in dict(
        half=0.5, one=1, three=3, cubic=0.044715, rate=(2 / np.pi) ** 0.5
    ).items()
}
MASKED = {"zero": np.float32(0), "minus": np.float32(-np.inf), "c": np.arange(6) % 3 > 0}
CASES = {
    "Celu": node_model("Celu", MATRIX, alpha=0.7),
    "Elu": node_model("Elu", MATRIX, alpha=0.7),
    "Gelu": node_model("Gelu", MATRIX, opset=20),
    "Gelu-tanh": node_model("Gelu", MATRIX, opset=20, approximate="tanh"),
    "Mul-gelu": text_model(
        "d = Div (h, root) e = Erf (d) a = Add (e, one) m = Mul (h, a) y = Mul (m, half)",
        MATRIX,
        constants=GELU,
    ),
    "Mul-gelu-tanh": text_model(
        "c = Pow (h, three) s = Mul (c, cubic) a = Add (h, s) r = Mul (rate, a) t = Tanh (r) "
        "o = Add (one, t) m = Mul (half, h) y = Mul (m, o)",
        MATRIX,
        constants=GELU_TANH,
    ),
    "Mul-hardswish": text_model(
        "s = HardSigmoid <alpha=0.16666667, beta=0.5> (h) y = Mul (h, s)", MATRIX
    ),
    "Mul-silu": text_model("s = Sigmoid (h) y = Mul (h, s)", MATRIX),
    "Where-softmax": text_model(
        "m = Where (c, zero, minus) a = Add (h, m) s = Softmax (a) n = IsNaN (s) "
        "y = Where (n, zero, s)",
        (3, 2, 6),
        constants=MASKED,
    ),
    "HardSigmoid": node_model("HardSigmoid", MATRIX),
    "HardSigmoid-steep": node_model("HardSigmoid", MATRIX, alpha=0.6, beta=0.4),
    "HardSwish": text_model("a = Mul (h, h) b = Sum (a, h, h) y = HardSwish (b)", MATRIX),
    "LeakyRelu": node_model("LeakyRelu", MATRIX, alpha=0.2),
    "LeakyRelu-negative": node_model("LeakyRelu", MATRIX, alpha=-0.2),
    "LogSoftmax": node_model("LogSoftmax", CUBE, axis=-1),
    "LogSoftmax-axis": node_model("LogSoftmax", CUBE, axis=1),
    "LogSoftmax-before-13": node_model("LogSoftmax", CUBE, opset=11),
    "Mish": node_model("Mish", MATRIX, opset=18),
    "PRelu": node_model("PRelu", MATRIX, parameters={"w": weight(10)}),
    "PRelu-channels": node_model("PRelu", IMAGE, parameters={"w": weight(4, 1, 1)}),
    "PRelu-one": node_model("PRelu", IMAGE, parameters={"w": weight(1)}),
    "Relu": node_model("Relu", MATRIX),
    "Selu": node_model("Selu", MATRIX),
    "Selu-numbers": node_model("Selu", MATRIX, alpha=0.5, gamma=1.5),
    "Shrink": node_model("Shrink", MATRIX, lambd=0.4, bias=0.1),
    "Sigmoid": node_model("Sigmoid", MATRIX),
    "Softmax": node_model("Softmax", CUBE, axis=-1),
    "Softmax-axis": node_model("Softmax", IMAGE, axis=1),
    "Softmax-before-13": node_model("Softmax", CUBE, opset=11),
    "Softmax-before-13-last": node_model("Softmax", CUBE, opset=11, axis=2),
    "Softplus": node_model("Softplus", MATRIX),
    "Softsign": node_model("Softsign", MATRIX),
    "SwiGLU": node_model("SwiGLU", MATRIX, opset=28, parameters={"w": weight(*MATRIX)}, alpha=1.5),
    "Swish": node_model("Swish", MATRIX, opset=24, alpha=1.5),
    "Tanh": node_model("Tanh", MATRIX),
    "ThresholdedRelu": node_model("ThresholdedRelu", MATRIX, alpha=0.3),
}
