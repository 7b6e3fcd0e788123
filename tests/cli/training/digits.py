"""Fixtures of the command line's tests: the digits model, compiled once, and a little data."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import odtc
from benchmarks.models.digits import digits_data, digits_model

BATCH = 16
SAMPLES = 200


@dataclass(frozen=True)
class Digits:
    """Files that no test may change.

    Attributes:
        model: the ONNX model.
        artifact: it, compiled for 8 threads of this machine with momentum, batch 16.
        train: 200 samples under the keys `image` and `y`.
        test: others under the keys `x` and `label`.
    """

    model: Path
    artifact: Path
    train: Path
    test: Path


def make_digits(folder: Path, target: str = "host-cpu{threads=8}") -> Digits:
    """Compiles the model, and writes the data."""
    files = Digits(*(folder / name for name in ("d.onnx", "d.odtc", "train.npz", "test.npz")))
    onnx.save(digits_model(), files.model)
    optimizer = odtc.SGD(momentum=0.9)
    artifact = odtc.compile(files.model, target, batch=BATCH, optimizer=optimizer)
    artifact.save(files.artifact)
    x_train, y_train, x_test, y_test = digits_data()
    np.savez(files.train, image=x_train[:SAMPLES], y=y_train[:SAMPLES])
    np.savez(files.test, x=x_test[:SAMPLES], label=y_test[:SAMPLES])
    return files


def trained(digits: Digits, *options: str | Path) -> list[str]:
    """The command line that trains on the digits."""
    return [str(part) for part in ("train", digits.artifact, "--data", digits.train, *options)]
