"""Activations."""

from tests.numeric.conftest import MATRIX, node_model

CASES = {
    "LogSoftmax": node_model("LogSoftmax", (3, 2, 5), axis=-1),
    "Relu": node_model("Relu", MATRIX),
    "Sigmoid": node_model("Sigmoid", MATRIX),
    "Softmax": node_model("Softmax", (3, 2, 5), axis=-1),
    "Tanh": node_model("Tanh", MATRIX),
}
