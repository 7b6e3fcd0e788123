"""A step for a phone's OpenCL in an aarch64 process: PoCL of arm64, which emulation makes slow."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.runtime_rpc.standin.phone import EmulatedPhone
from odtc.runtime_rpc.standin.systems import python_with_gpu
from tests.numeric.mlp import batches, mlp_artifact

pytestmark = pytest.mark.device

TARGET = "android-opencl{gpu=mali-g76}"


@pytest.fixture(scope="module")
def phone_with_gpu() -> Iterator[EmulatedPhone]:
    with EmulatedPhone(system=python_with_gpu) as running:
        yield running


def check(on_host: odtc.Trainer, on_phone: odtc.Trainer, data: list) -> None:
    """Five steps give the host's losses and parameters."""
    expected = [on_host.step(x, y, lr=0.05) for x, y in data]
    losses = [on_phone.step(x, y, lr=0.05) for x, y in data]
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    weights = on_host.parameters()
    for name, value in on_phone.parameters().items():
        np.testing.assert_allclose(value, weights[name], rtol=1e-3, atol=1e-5, err_msg=name)
    on_phone.session.close()


def test_five_steps_give_the_hosts(phone_with_gpu: EmulatedPhone, tmp_path: Path) -> None:
    on_host = mlp_artifact(tmp_path, odtc.SGD(momentum=0.9)).trainer()
    artifact = mlp_artifact(tmp_path, odtc.SGD(momentum=0.9), target=TARGET)
    on_phone = artifact.trainer(phone_with_gpu.url)
    assert on_phone.session.kind == "opencl"
    assert on_phone.session.info()["machine"] == "aarch64"
    check(on_host, on_phone, batches(5))


@pytest.mark.slow
def test_a_convolutional_net(phone_with_gpu: EmulatedPhone, tmp_path: Path) -> None:
    onnx.save(digits_model(), tmp_path / "m.onnx")
    on_host, on_phone = (
        odtc.compile(tmp_path / "m.onnx", target, batch=8) for target in ("host-cpu", TARGET)
    )
    x, y, *_ = digits_data()
    data = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 40, 8)]
    check(on_host.trainer(), on_phone.trainer(phone_with_gpu.url), data)
