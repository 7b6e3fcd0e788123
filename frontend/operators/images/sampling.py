"""Images read at the positions of a grid, and the grids of affine transforms."""

import math

import numpy as np

from odtc.frontend.operators.forms import reshape, split_axis
from odtc.frontend.operators.images.interpolation import (
    CUBIC,
    LINEAR,
    Kernel,
    Taps,
    framed,
    in_frame,
    read,
    rows_of,
    taps,
)
from odtc.frontend.operators.operator import Emit, Node, Operator, is_float

# Before opset 20 the names were those of two axes. None reads the nearest element.
_KERNELS: dict[str, Kernel | None] = {
    "nearest": None,
    "linear": LINEAR,
    "bilinear": LINEAR,
    "cubic": CUBIC,
    "bicubic": CUBIC,
}
_PADDINGS = ("zeros", "border", "reflection")
_MODE = "linear"
_CUBIC_BORDER = (
    "{}: cubic with padding_mode border: positions outside of the image have the value at its "
    "border, as ONNX's reference has it; PyTorch goes on with the curve there"
)


def _samples(node: Node) -> str:
    """The shapes must be known; an image and its grid are floats of one type."""
    attrs = node.attrs
    if any(name not in node.graph.shapes for name in node.inputs):
        return "the inputs' shapes are not static"
    image, grid = node.shape(), node.shape(1)
    if len(grid) != len(image) or (grid[0], grid[-1]) != (image[0], len(image) - 2):
        return f"a grid of shape {list(grid)} does not fit an image of shape {list(image)}"
    if node.dtype(0) != node.dtype(1) or not is_float(node.dtype(0)):
        return f"an image of {node.dtype(0)} and a grid of {node.dtype(1)}: floats of one type"
    if attrs.get("mode", _MODE) not in _KERNELS:
        return f"mode {attrs['mode']!r} is not one of {', '.join(_KERNELS)}"
    if attrs.get("padding_mode", "zeros") not in _PADDINGS:
        return f"padding_mode {attrs['padding_mode']!r} is not one of {', '.join(_PADDINGS)}"
    return ""


def _grid_sample(node: Node, emit: Emit) -> str:
    """The last grid entry of a position is that along the first spatial axis."""
    batch, channels, *sizes = node.shape()
    result = node.shape(1)[1:-1]
    positions = math.prod(result)
    padding = node.attrs.get("padding_mode", "zeros")
    if padding == "border" and _KERNELS[node.attrs.get("mode", _MODE)] is CUBIC:
        node.graph.notes.append(_CUBIC_BORDER.format(node.proto.name or node.proto.output[0]))
    grid = reshape(emit, node.inputs[1], batch, positions, len(sizes))
    parts = split_axis(node, emit, grid, 2, [1] * len(sizes))
    axes = [
        _axis(node, emit, part, size) for part, size in zip(reversed(parts), sizes, strict=True)
    ]
    data = node.inputs[0]
    if padding == "zeros":
        data, sizes = framed(emit, data, sizes), [size + 2 for size in sizes]
    image = rows_of(emit, data, [batch], channels, sizes)
    values = emit("Transpose", read(node, emit, image, axes, positions), perm=[0, 2, 1])
    return reshape(emit, values, batch, channels, *result)


def _axis(node: Node, emit: Emit, entry: str, size: int) -> Taps:
    """The elements along one axis, in the frame of zeros where there is one."""
    padding = node.attrs.get("padding_mode", "zeros")
    kernel = _KERNELS[node.attrs.get("mode", _MODE)]
    aligned = bool(node.attrs.get("align_corners"))
    position = _position(emit, entry, size, aligned=aligned)
    if kernel is None:
        position = emit("Round", position)
    if padding == "reflection":
        position = _reflected(emit, position, size, aligned=aligned)
    if padding != "zeros" and not (padding == "reflection" and kernel is CUBIC):
        position = _held(emit, position, size)
    found = Taps(position, None, 1) if kernel is None else taps(node, emit, position, kernel)
    places = found.places
    if padding == "zeros":
        return Taps(in_frame(emit, places, size), found.weights, found.count)
    if padding == "reflection" and kernel is CUBIC:
        places = _reflected(emit, places, size, aligned=aligned)
    return Taps(emit("Clip", places, 0.0, float(size - 1)), found.weights, found.count)


def _position(emit: Emit, entry: str, size: int, *, aligned: bool) -> str:
    """From -1 .. 1 to indices, as PyTorch rounds it."""
    above = emit("Add", entry, 1.0)
    if aligned:
        return emit("Mul", emit("Div", above, 2.0), float(size - 1))
    return emit("Div", emit("Sub", emit("Mul", above, float(size)), 1.0), 2.0)


def _held(emit: Emit, position: str, size: int) -> str:
    """Inside of the image; at its ends and beyond, nothing passes back."""
    low = emit("Where", emit("Less", position, float(size - 1)), position, float(size - 1))
    return emit("Where", emit("Greater", position, 0.0), low, 0.0)


def _reflected(emit: Emit, position: str, size: int, *, aligned: bool) -> str:
    """Reflected at the ends until it is inside: at the elements, or half an element further."""
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    if high <= low:
        return emit("Mul", position, 0.0)
    past = emit("Sub", position, low)
    past = emit("Where", emit("Less", past, 0.0), emit("Neg", past), past)
    turns = emit("Floor", emit("Div", past, high - low))
    rest = emit("Sub", past, emit("Mul", turns, high - low))
    pairs = emit("Floor", emit("Div", turns, 2.0))
    is_odd = emit("Greater", turns, emit("Mul", pairs, 2.0))
    return emit("Where", is_odd, emit("Sub", high, rest), emit("Add", rest, low))


def _affine(node: Node) -> str:
    """The size must be constant, and that of images or volumes."""
    size = node.constant(1)
    if size is None:
        return "the size must be constant"
    if size.size not in (4, 5):
        return f"a size of 4 or 5 numbers is supported, not {size.size}"
    given, expected = node.graph.shapes.get(node.inputs[0]), (size[0], size.size - 2, size.size - 1)
    if given != expected:
        return f"theta has shape {given and list(given)}, not {[int(each) for each in expected]}"
    return "" if size.min() > 0 else f"a size of {size.tolist()} has no elements"


def _affine_grid(node: Node, emit: Emit) -> str:
    """The centres of the elements, or with `align_corners` the elements from end to end."""
    batch, _, *sizes = (node.ints("", 1) or [])[:5]
    aligned = bool(node.attrs.get("align_corners"))
    along = [_centres(size, aligned=aligned) for size in sizes]
    corners = np.meshgrid(*along, indexing="ij")
    base = np.stack([*reversed(corners), np.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    turned = emit("Transpose", node.inputs[0], perm=[0, 2, 1])
    return reshape(
        emit, emit("MatMul", base.astype(node.dtype()), turned), batch, *sizes, len(sizes)
    )


def _centres(size: int, *, aligned: bool) -> np.ndarray:
    if aligned:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
    return (2 * np.arange(size) + 1) / size - 1


OPERATORS: dict[str, Operator] = {
    "AffineGrid": Operator(condition=_affine, expand=_affine_grid),
    "GridSample": Operator(condition=_samples, expand=_grid_sample),
}
