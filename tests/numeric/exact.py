"""ONNX's reference evaluator, with own forms of what it rounds to single precision or has wrong."""

import math

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun


class Erf(OpRun):
    """In double precision."""

    op_domain = ""

    def _run(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class Gelu(OpRun):
    """In double precision."""

    op_domain = ""

    def _run(self, x: np.ndarray, approximate: str = "none") -> tuple[np.ndarray]:
        if approximate == "tanh":
            gate = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
        else:
            gate = np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2))
        return (x * (1 + gate) / 2,)


class Softmax(OpRun):
    """Before opset 13: over all dimensions from `axis` on."""

    op_domain = ""

    def _run(self, x: np.ndarray, axis: int) -> tuple[np.ndarray]:
        # The default that is passed is that of the latest opset.
        axis = axis if self.onnx_node.attribute else 1
        rows = x.reshape(math.prod(x.shape[: axis % x.ndim]), -1)
        power = np.exp(rows - rows.max(1, keepdims=True))
        return ((power / power.sum(1, keepdims=True)).reshape(x.shape),)


class LogSoftmax(Softmax):
    """Before opset 13: over all dimensions from `axis` on."""

    def _run(self, x: np.ndarray, axis: int) -> tuple[np.ndarray]:
        return (np.log(super()._run(x, axis)[0]),)


def evaluate(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The model's first output."""
    older = [Softmax, LogSoftmax] if model.opset_import[0].version < 13 else []
    return ReferenceEvaluator(model, new_ops=[Erf, Gelu, *older]).run(None, {"x": x})[0]
