"""Short limits, and what the phones of this folder train."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.runtime_rpc import connect as connecting
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.faults.causing import BATCH, LIMITS, train


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "DEFAULT", LIMITS)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact for the phone, and data."""
    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "digits.onnx")
    artifact = odtc.compile(
        folder / "digits.onnx",
        target="android-cpu",
        batch=BATCH,
        optimizer=odtc.SGD(momentum=0.9),
    )
    artifact.save(folder / "digits.odtc")
    x, y, *_ = digits_data()
    np.savez(folder / "digits.npz", x=x, y=y)
    return folder


@pytest.fixture(scope="module")
def expected(files: Path, ready: AdbPhone) -> dict[str, np.ndarray]:
    """The weights after a run without faults."""
    assert train(files, f"adb://{ready.serial}", files / "whole") == 0
    return load_file(files / "whole")
