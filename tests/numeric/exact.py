"""ONNX's reference evaluator, with own forms of what it rounds to single precision or has wrong."""

import math
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_causal_conv_with_state as causal
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


def _between(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """An image `[channels, height, width]` among zeros, at positions between its elements."""
    top, left = (np.floor(each).astype(int) for each in (y, x))
    total = np.zeros(1)
    for row, high in ((top, 1 - y + top), (top + 1, y - top)):
        for column, wide in ((left, 1 - x + left), (left + 1, x - left)):
            inside = (row >= 0) & (row < image.shape[1]) & (column >= 0) & (column < image.shape[2])
            held = image[:, row.clip(0, image.shape[1] - 1), column.clip(0, image.shape[2] - 1)]
            total = total + np.where(inside, high * wide, 0) * held
    return total


class DeformConv(OpRun):
    """In double precision, of two spatial axes."""

    op_domain = ""

    def _run(self, x, weight, offset, bias=None, mask=None, **attrs) -> tuple[np.ndarray]:
        kernel, (rows, columns) = weight.shape[2:], offset.shape[2:]
        groups, parts = attrs["group"], attrs["offset_group"]
        offset = offset.reshape(len(x), parts, *kernel, 2, rows, columns)
        mask = np.ones(1) if mask is None else mask.reshape(len(x), parts, *kernel, rows, columns)
        mask = np.broadcast_to(mask, (len(x), parts, *kernel, rows, columns))
        result = np.zeros((len(x), len(weight), rows, columns))
        at = np.indices((rows, columns))
        for n, part, i, j in np.ndindex(len(x), parts, *kernel):
            y, z = (
                at[axis] * attrs["strides"][axis]
                + (i, j)[axis] * attrs["dilations"][axis]
                - attrs["pads"][axis]
                + offset[n, part, i, j, axis]
                for axis in range(2)
            )
            channels = np.split(np.arange(x.shape[1]), parts)[part]
            seen = _between(x[n, channels], y, z) * mask[n, part, i, j]
            for channel, values in zip(channels, seen, strict=True):
                group, inner = divmod(channel, weight.shape[1])
                own = slice(group * len(weight) // groups, (group + 1) * len(weight) // groups)
                result[n, own] += weight[own, inner, i, j, None, None] * values
        return (result if bias is None else result + bias[:, None, None],)


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


class CausalConvWithState(causal.CausalConvWithState):
    """Its activation in double precision."""

    op_domain = ""

    def _run(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *inputs: np.ndarray | None, activation: str = "none"
    ) -> tuple[np.ndarray, ...]:
        result, state = super()._run(*inputs, activation="none")
        return (result if activation == "none" else result / (1 + np.exp(-result)), state)


class LinearAttention(OpRun):
    """In double precision."""

    op_domain = ""

    def _run(
        self,
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        state: np.ndarray | None = None,
        decay: np.ndarray | None = None,
        beta: np.ndarray | None = None,
        *,
        kv_num_heads: int,
        q_num_heads: int,
        **_: object,
    ) -> tuple[np.ndarray, np.ndarray]:
        batch, steps, _ = query.shape
        q, k, v = (
            each.reshape(batch, steps, heads, -1)
            for each, heads in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads))
        )
        shape = (batch, kv_num_heads, k.shape[3], v.shape[3])
        state = np.zeros(shape) if state is None else state
        result = np.zeros((batch, steps, q_num_heads, v.shape[3]))
        for at in np.ndindex(batch, steps, q_num_heads):
            sample, step, head = at
            own = head * kv_num_heads // q_num_heads
            if head % (q_num_heads // kv_num_heads) == 0:
                matrix = state[sample, own]
                if decay is not None:
                    row = decay[sample, step].reshape(kv_num_heads, -1)[own]
                    matrix = np.exp(row)[:, None] * matrix
                new = v[sample, step, own]
                if beta is not None:
                    rate = beta[sample, step].reshape(-1)
                    new = rate[own % len(rate)] * (new - k[sample, step, own] @ matrix)
                state = state.copy()
                state[sample, own] = matrix + np.outer(k[sample, step, own], new)
            result[at] = q[at] @ state[sample, own] / np.sqrt(q.shape[3])
        return result.reshape(batch, steps, -1).astype(query.dtype), state.astype(query.dtype)


EXACT = (AffineGrid, CausalConvWithState, DeformConv, Erf, Gelu, GridSample, LinearAttention)


def evaluate(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """The model's first output."""
    older = [Softmax, LogSoftmax] if model.opset_import[0].version < 13 else []
    results: Any = ReferenceEvaluator(model, new_ops=[*EXACT, *older]).run(None, {"x": x})
    return results[0]
