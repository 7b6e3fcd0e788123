"""Folding, unpooling and determinants."""

from typing import Any

import numpy as np
import onnx

from tests.numeric.conftest import ints, node_model, text_model


def fold(
    image: tuple[int, ...], block: tuple[int, ...], blocks: int, **attributes: Any
) -> onnx.ModelProto:
    """Three samples of two channels."""
    return node_model(
        "Col2Im",
        (3, 2 * int(np.prod(block)), blocks),
        constants={"image": ints(*image), "block": ints(*block)},
        opset=18,
        **attributes,
    )


def unpool(pooling: str, behind: str, constants: dict[str, np.ndarray], shape: tuple[int, ...]):
    """A pooling and its inverse, with the indices of the one."""
    text = f"a, i = MaxPool <{pooling}> (h) b = Mul (a, a) y = MaxUnpool <{behind}> (b, i{{}})"
    return text_model(text.format("".join(f", {k}" for k in constants)), shape, constants=constants)


CASES = {
    "Col2Im": fold((5, 5), (2, 3), 12),
    "Col2Im-apart": fold((4, 6), (2, 3), 4, strides=[2, 3]),
    "Col2Im-rest": fold((5, 6), (2, 2), 6, strides=[2, 2]),
    "Col2Im-all": fold((6, 5), (2, 2), 12, strides=[2, 1], dilations=[2, 1], pads=[1, 0, 1, 0]),
    "Col2Im-1d": fold((7,), (3,), 4, strides=[2], pads=[1, 1]),
    "Col2Im-3d": fold((3, 4, 3), (2, 2, 1), 18),
    "Det": node_model("Det", (3, 3, 3)),
    "Det-2": node_model("Det", (3, 4, 2, 2)),
    "Det-5": node_model("Det", (3, 2, 5, 5)),
    "MaxPool-indices": text_model(
        "a, i = MaxPool <kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 0, 1], ceil_mode=1> (h) "
        "f = Cast <to=1> (i) g = Mul (f, small) y = Mul (a, g)",
        (2, 2, 5, 4),
        constants={"small": np.float32(0.01)},
    ),
    "MaxUnpool": unpool(
        "kernel_shape=[2, 2], strides=[2, 2]",
        "kernel_shape=[2, 2], strides=[2, 2]",
        {},
        (3, 2, 4, 6),
    ),
    "MaxUnpool-1d": unpool(
        "kernel_shape=[2], strides=[2]", "kernel_shape=[2], strides=[2]", {}, (3, 2, 8)
    ),
    "MaxUnpool-shape": node_model(
        "MaxUnpool",
        (1, 1, 2, 2),
        constants={"i": np.array([[[[5, 7], [13, 15]]]]), "s": ints(1, 1, 5, 5)},
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
}
