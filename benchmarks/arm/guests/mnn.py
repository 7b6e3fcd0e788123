"""Steps of MNN in the emulator: mnn.py STEPS RATE POOLS."""

import sys
from pathlib import Path

import numpy as np
from marks import count
from mnn_steps import MnnSteps  # pyright: ignore[reportMissingImports] - the guest has its folder


def main() -> None:
    """Takes steps of `model.mnn`."""
    steps, rate, pools = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "1"
    trainer = MnnSteps(Path("model.mnn"), pools=pools, lr=rate, threads=1)
    with np.load("batch.npz") as arrays:
        *x, y = (arrays[name] for name in arrays.files)
    count(lambda: trainer.step(dict(enumerate(x)), y), steps)


if __name__ == "__main__":
    main()
