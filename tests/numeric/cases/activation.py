"""Activations."""

from tests.numeric.conftest import IMAGE, MATRIX, node_model, text_model, weight

CUBE = (3, 2, 5)
CASES = {
    "Celu": node_model("Celu", MATRIX, alpha=0.7),
    "Elu": node_model("Elu", MATRIX, alpha=0.7),
    "Gelu": node_model("Gelu", MATRIX, opset=20),
    "Gelu-tanh": node_model("Gelu", MATRIX, opset=20, approximate="tanh"),
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
    "Swish": node_model("Swish", MATRIX, opset=24, alpha=1.5),
    "Tanh": node_model("Tanh", MATRIX),
    "ThresholdedRelu": node_model("ThresholdedRelu", MATRIX, alpha=0.3),
}
