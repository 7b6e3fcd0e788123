"""Fourier transforms as products with constant matrices, and the windows and filters beside them.

A matrix is what numpy's transform makes of the unit vectors: so each of its options is the same.
"""

import numpy as np

from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.operator import Emit, Node, Operator

# Elements of a matrix: 32 MiB, that of 2,048 real numbers.
MOST_ELEMENTS = 1 << 23
# Since this opset the axis is an input, and another one by default.
_AXIS_INPUT_SINCE = 20
# Inputs of STFT: signal, frame_step, window, frame_length.
_STEP, _WINDOW, _LENGTH = 1, 2, 3


def _axis(node: Node) -> int | None:
    if node.opset < _AXIS_INPUT_SINCE:
        return int(node.attrs.get("axis", 1)) % node.rank()
    axis = node.number("axis", 2) if node.has(2) else -2
    return None if axis is None else int(axis) % node.rank()


def _length(node: Node, size: int) -> int | None:
    if node.has(1):
        length = node.number("", 1)
        return None if length is None else int(length)
    whole = node.attrs.get("inverse") and node.attrs.get("onesided")
    return 2 * (size - 1) if whole else size


def _can_transform(node: Node) -> str:
    """The input's shape must be known; length and axis constant; not longer than 2,048."""
    if node.inputs[0] not in node.graph.shapes:
        return "the input's shape is not static"
    if node.shape()[-1] not in (1, 2):
        return f"the last dimension is {node.shape()[-1]}; it holds a number's one or two parts"
    axis = _axis(node)
    length = None if axis is None else _length(node, node.shape()[axis])
    if axis is None or length is None:
        return "the length and the axis must be constant"
    if length < 1 or axis == node.rank() - 1:
        return f"nothing is transformed by a length of {length} along axis {axis}"
    return _too_large(node.shape()[axis] * length * node.shape()[-1] * 2)


def _too_large(elements: int) -> str:
    if elements <= MOST_ELEMENTS:
        return ""
    return f"its matrix would have {elements} elements, over {MOST_ELEMENTS}"


def _dft(node: Node, emit: Emit) -> str:
    """Numbers along the axis, with their parts side by side, times the matrix."""
    shape, axis, rank = node.shape(), _axis(node), node.rank()
    length = None if axis is None else _length(node, shape[axis])
    assert axis is not None
    assert length is not None
    inverse, onesided = (bool(node.attrs.get(name)) for name in ("inverse", "onesided"))
    matrix = transform(shape[axis], shape[-1], length, inverse, onesided)
    rows, parts, columns, given = matrix.shape
    order = [*(each for each in range(rank - 1) if each != axis), axis, rank - 1]
    data = emit("Transpose", node.inputs[0], perm=order)
    apart = [shape[each] for each in order[:-2]]
    data = reshape(emit, data, *apart, rows * parts)
    flat = matrix.reshape(rows * parts, columns * given).astype(node.dtype())
    result = reshape(emit, emit("MatMul", data, flat), *apart, columns, given)
    return emit("Transpose", result, perm=[order.index(each) for each in range(rank)])


def transform(
    size: int, parts: int, length: int, inverse: bool = False, onesided: bool = False
) -> np.ndarray:
    """The matrix of a transform, float64 `[size, parts, columns, parts of results]`.

    Args:
        size: numbers that are given.
        parts: 1 for real numbers, 2 for complex ones.
        length: of the transform: numbers are cut, or zeros follow them.
        inverse: whether it is the inverse.
        onesided: whether the second half of the frequencies is left out, which mirrors the first.
    """
    units = np.eye(size)[:, None, :] * np.array([1, 1j])[:parts, None]
    if inverse and onesided:
        return np.fft.irfft(units, n=length)[..., None]
    found = (np.fft.ifft if inverse else np.fft.fft)(units, n=length)
    found = found[..., : length // 2 + 1] if onesided else found
    return np.stack([found.real, found.imag], -1)


def _frame_length(node: Node) -> int | None:
    if node.has(_LENGTH):
        length = node.number("", _LENGTH)
        return None if length is None else int(length)
    return node.shape(_WINDOW)[0] if node.has(_WINDOW) else node.shape()[1]


def _can_frame(node: Node) -> str:
    """Shapes must be known; step and length of a frame constant; not longer than 2,048."""
    if any(name not in node.graph.shapes for name in node.inputs if name):
        return "the inputs' shapes are not static"
    if node.rank() != 3 or node.shape()[2] not in (1, 2):
        return f"the signal's shape {list(node.shape())} is not [batch, length, 1 or 2]"
    length, step = _frame_length(node), node.number("", _STEP)
    if length is None or step is None:
        return "the step and the length of a frame must be constant"
    if step < 1 or not 1 <= length <= node.shape()[1]:
        return f"no frame of {length}, {step} apart, fits in a signal of {node.shape()[1]}"
    if node.has(_WINDOW) and node.shape(_WINDOW) != (length,):
        return f"the window's shape {list(node.shape(_WINDOW))} is not [{length}]"
    return _too_large(length * length * node.shape()[2] * 2)


def _stft(node: Node, emit: Emit) -> str:
    """Frames under the window, times the matrix."""
    length, step = _frame_length(node), node.number("", _STEP)
    assert length is not None
    assert step is not None
    batch, size, parts = node.shape()
    matrix = transform(length, parts, length, onesided=bool(node.attrs.get("onesided", 1)))
    starts = np.arange(1 + (size - length) // int(step)) * int(step)
    frames = emit("Gather", node.inputs[0], starts[:, None] + np.arange(length), axis=1)
    if node.has(_WINDOW):
        frames = emit("Mul", frames, reshape(emit, node.inputs[_WINDOW], length, 1))
    flat = matrix.reshape(length * parts, -1).astype(node.dtype())
    apart = (batch, len(starts))
    result = emit("MatMul", reshape(emit, frames, *apart, length * parts), flat)
    return reshape(emit, result, *apart, matrix.shape[2], 2)


def _constant_inputs(_: Node) -> str:
    """The inputs must be constant."""
    return "the inputs must be constant, and the result not too large"


_CONSTANT = Operator(condition=_constant_inputs)
OPERATORS: dict[str, Operator] = {
    **dict.fromkeys(
        ("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), _CONSTANT
    ),
    "DFT": Operator(condition=_can_transform, expand=_dft),
    "STFT": Operator(condition=_can_frame, expand=_stft),
}
