"""Makes the digits model as a suite wants it: called with a name, a batch and a folder."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx

from benchmarks.models.digits import digits_model

if __name__ == "__main__":
    name, batch, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    onnx.save(digits_model(), folder / "model.onnx")
    chance = np.random.default_rng(0)
    x, y = chance.random((batch, 1, 8, 8), np.float32), chance.integers(0, 10, batch)
    np.savez(folder / "data.npz", image=x, y=y)
    module = f"tests.comparison.digits_module:{name}"
    print(json.dumps({"loss": ["cross-entropy"], "lr": 0.01, "module": module}))
