"""Local response normalisation keeps its input and one number for each element."""

from pathlib import Path

import numpy as np
import onnx

import odtc
from tests.numeric.conftest import text_model


def test_what_is_saved(tmp_path: Path) -> None:
    """Five layers, each with a rectified product that it normalises, and that product's input."""
    rng = np.random.default_rng(0)
    nodes, weights, data = "", {}, "h"
    for layer in range(5):
        weights[f"w{layer}"] = (rng.standard_normal((8, 8, 1, 1)) / 8).astype(np.float32)
        nodes += (
            f"c{layer} = Conv ({data}, w{layer}) r{layer} = Relu (c{layer}) "
            f"n{layer} = LRN <size = 3, alpha = 0.5> (r{layer}) "
        )
        data = f"n{layer}"
    nodes += f"y = GlobalAveragePool ({data})"
    onnx.save(text_model(nodes, (4, 8, 32, 32), parameters=weights), tmp_path / "m.onnx")
    planned = odtc.compile(tmp_path / "m.onnx").manifest.sizes.train_step
    # Three a layer, and what the backward of the last one works on, workspaces among it.
    assert planned < 20 * 4 * 8 * 32 * 32 * 4
