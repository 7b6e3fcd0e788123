"""Makes a model of a suite: `python -m benchmarks.suites.make NAME BATCH FOLDER`."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx

from benchmarks.step_time.cases import case_of

# At their usual rates these know a single image after one step: losses of zero compare nothing.
_RATES = {"dcgan_discriminator": 1e-4, "zoo/vgg19": 1e-6}
# The label of data that has only one.
_LABEL = "y"


def main() -> None:
    """Writes the model and one batch of random data; prints how it is trained."""
    name, batch, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    case = case_of(name, batch)
    onnx.save(case.model, folder / "model.onnx")
    arrays = {**case.x, _LABEL: case.y}
    np.savez(folder / "data.npz", **arrays)  # pyright: ignore[reportArgumentType]
    module = f"benchmarks.suites.modules:{name}"
    print(json.dumps({"loss": [case.loss], "lr": _RATES.get(name, case.lr), "module": module}))


if __name__ == "__main__":
    main()
