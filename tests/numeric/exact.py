"""ONNX's reference evaluator, with own forms of what it rounds to single precision or has wrong."""

import math

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_affine_grid import construct_original_grid
from onnx.reference.ops.op_grid_sample import GridSample as RoundedGridSample


class AffineGrid(OpRun):
    """In double precision; an axis of one element is in the middle."""

    op_domain = ""

    def _run(self, theta: np.ndarray, size: np.ndarray, align_corners: int) -> tuple[np.ndarray]:
        with np.errstate(divide="ignore"):
            grid = construct_original_grid(list(size[2:]), align_corners)
        at = [axis for axis, count in enumerate(size[2:]) if count == 1 and align_corners]
        for axis in at:
            grid[..., len(size) - 3 - axis] = 0
        return (np.einsum("nij,...j->n...i", theta, grid),)


class GridSample(RoundedGridSample):
    """In double precision."""

    op_domain = ""

    def _gs_denormalize_coordinates(self, n: np.ndarray, dims: tuple, align_corners: bool):
        pairs = zip(n, dims, strict=True)
        return np.array([self._gs_denormalize(v, size, align_corners) for v, size in pairs])


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
    return ReferenceEvaluator(model, new_ops=[AffineGrid, Erf, Gelu, GridSample, *older]).run(
        None, {"x": x}
    )[0]
