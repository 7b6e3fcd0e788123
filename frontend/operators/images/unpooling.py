"""Windows put back together, and elements put back to where a pooling found them."""

import math

import numpy as np

from odtc.frontend.normalize.shapes import unpooled_shape
from odtc.frontend.operators.forms import reshape
from odtc.frontend.operators.images.padding import pad
from odtc.frontend.operators.operator import Emit, Node, Operator
from odtc.frontend.operators.shape import static_input


def _blocks(node: Node) -> str:
    """The sizes of image and blocks must be constant; 1 to 3 spatial axes."""
    image, block = node.ints("", 1), node.ints("", 2)
    if image is None or block is None:
        return "the sizes of image and blocks must be constant"
    if not 1 <= len(image) <= 3:
        return f"1 to 3 spatial axes are supported; the image has {len(image)}"
    return static_input(node) or _apart(node, image, block)


def _apart(node: Node, image: list[int], block: list[int]) -> str:
    """Whether the blocks are those of such an image."""
    attrs, axes, shape = node.attrs, range(len(image)), node.shape()
    lists = [attrs.get(name) or [1 for _ in axes] for name in ("strides", "dilations")]
    pads = attrs.get("pads") or [0 for _ in axes] * 2
    if len(block) != len(image) or len(pads) != 2 * len(image) or min(*map(min, lists), *block) < 1:
        return f"blocks of {block} with strides {lists[0]} and dilations {lists[1]} do not fit"
    room = [image[i] + pads[i] + pads[i + len(image)] - lists[1][i] * (block[i] - 1) for i in axes]
    count = math.prod(max((room[i] - 1) // lists[0][i] + 1, 0) for i in axes)
    if len(shape) == 3 and shape[1] % math.prod(block) == 0 and shape[2] == count > 0:
        return ""
    return f"{count} blocks of {block} make the image, the input has shape {list(shape)}"


def _col2im(node: Node, emit: Emit) -> str:
    """Blocks that share no element are moved; of others, the transpose of a convolution adds up.

    Its kernels have a single one, for each place in a block.
    """
    image, block = node.ints("", 1) or [], node.ints("", 2) or []
    axes, taps = range(len(image)), math.prod(block)
    strides = node.attrs.get("strides") or [1] * len(image)
    dilations = node.attrs.get("dilations") or [1] * len(image)
    pads = node.attrs.get("pads") or [0] * 2 * len(image)
    batch, rows, _ = node.shape()
    room = [image[i] + pads[i] + pads[i + len(image)] - dilations[i] * (block[i] - 1) for i in axes]
    counts = [(size - 1) // step + 1 for size, step in zip(room, strides, strict=True)]
    channels = rows // taps
    if _share_nothing(block, strides, dilations, pads) and image == _ends(counts, block):
        order = [0, 1, *(at for i in axes for at in (2 + len(image) + i, 2 + i))]
        view = reshape(emit, node.inputs[0], batch, channels, *block, *counts)
        return reshape(emit, emit("Transpose", view, perm=order), batch, channels, *image)
    ones = np.eye(taps, dtype=node.dtype()).reshape(taps, 1, *block)
    reached = [
        (counts[i] - 1) * strides[i] + dilations[i] * (block[i] - 1) + 1 - pads[i] for i in axes
    ]
    whole = emit(
        "ConvTranspose",
        reshape(emit, node.inputs[0], batch * channels, taps, *counts),
        ones,
        strides=strides,
        dilations=dilations,
        pads=[*pads[: len(image)], *(max(reached[i] - image[i], 0) for i in axes)],
    )
    missing = [max(image[i] - reached[i], 0) for i in axes]
    if any(missing):
        whole = pad(node, emit, whole, [0] * (len(image) + 4) + missing)
    return reshape(emit, whole, batch, channels, *image)


def _share_nothing(
    block: list[int], strides: list[int], dilations: list[int], pads: list[int]
) -> bool:
    return strides == block and max(dilations) == 1 and not any(pads)


def _ends(counts: list[int], block: list[int]) -> list[int]:
    return [count * size for count, size in zip(counts, block, strict=True)]


def _unpooled(node: Node) -> str:
    """The shapes must be known, and an output of another size constant, and no smaller."""
    if any(name not in node.graph.shapes for name in node.inputs[:2]):
        return "the inputs' shapes are not static"
    if node.shape() != node.shape(1) or len(node.attrs["kernel_shape"]) != node.rank() - 2:
        return f"indices of shape {list(node.shape(1))} do not fit {list(node.shape())}"
    least = unpooled_shape(node.shape(), node.attrs).tolist()
    if node.has(2) and node.constant(2) is None:
        return "the shape of the output must be constant"
    # One that is larger has given way to a Pad (`frontend/normalize/resolve.py`).
    return f"the output is smaller than {least}, which the indices count in" if node.has(2) else ""


def _max_unpool(node: Node, emit: Emit) -> str:
    """The elements among zeros, in one row."""
    shape, count = unpooled_shape(node.shape(), node.attrs).tolist(), math.prod(node.shape())
    zeros = np.zeros(math.prod(shape), node.dtype())
    indices, data = (reshape(emit, name, count) for name in (node.inputs[1], node.inputs[0]))
    return reshape(emit, emit("ScatterElements", zeros, indices, data, axis=0), *shape)


OPERATORS: dict[str, Operator] = {
    "Col2Im": Operator(condition=_blocks, expand=_col2im),
    "MaxUnpool": Operator(condition=_unpooled, expand=_max_unpool),
}
