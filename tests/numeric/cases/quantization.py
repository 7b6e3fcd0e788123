"""Quantised tensors, as far as they have a gradient: in their scale."""

import numpy as np

from tests.numeric.conftest import ints, text_model

Q = np.arange(-9, 9).reshape(3, 6).astype(np.int8)

CASES = {
    "DequantizeLinear": text_model(
        "s = ReduceSum <keepdims = 0> (h, axes) y = DequantizeLinear (q, s, z)",
        (3, 6),
        constants={"q": Q, "z": np.arange(6, dtype=np.int8), "axes": ints(0)},
        opset=21,
    ),
}
