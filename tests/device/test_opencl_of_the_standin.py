"""A step for a phone's OpenCL in an aarch64 process: PoCL of arm64, which emulation makes slow."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.runtime_rpc.engines.served import ServedEngine
from odtc.runtime_rpc.standin.phone import EmulatedPhone
from odtc.runtime_rpc.standin.systems import linux_with_gpu
from tests.numeric.mlp import batches, mlp_artifact

pytestmark = pytest.mark.device

GPU = "{gpu=mali-g76}"
TARGET = f"android-opencl{GPU}"


@pytest.fixture(scope="module")
def device_with_gpu() -> Iterator[EmulatedPhone]:
    with EmulatedPhone(system=linux_with_gpu) as running:
        yield running


def same_bits(here: odtc.Trainer, there: odtc.Trainer, data: list) -> None:
    """Losses and parameters are those of PoCL in this process, on another machine."""
    assert isinstance(there._engine, ServedEngine)
    assert there.session.info()["machine"] == "aarch64"
    assert [there.step(x, y, 0.05) for x, y in data] == [here.step(x, y, 0.05) for x, y in data]
    weights = here.parameters()
    for name, value in there.parameters().items():
        np.testing.assert_array_equal(value, weights[name], err_msg=name)
    there.session.close()


@pytest.mark.slow
def test_odtc_device_gives_the_bits_of_this_machine(
    device_with_gpu: EmulatedPhone, tmp_path: Path
) -> None:
    optimizer = odtc.SGD(momentum=0.9)
    here = mlp_artifact(tmp_path, optimizer, target=f"host-opencl{GPU}").trainer()
    there = mlp_artifact(tmp_path, optimizer, target=TARGET).trainer(device_with_gpu.url)
    same_bits(here, there, batches(5))


@pytest.mark.slow
def test_a_convolutional_net(device_with_gpu: EmulatedPhone, tmp_path: Path) -> None:
    """Losses and parameters are the CPU's."""
    onnx.save(digits_model(), tmp_path / "m.onnx")
    here, there = (
        odtc.compile(tmp_path / "m.onnx", target, batch=8) for target in ("host-cpu", TARGET)
    )
    x, y, *_ = digits_data()
    data = [(x[i : i + 8], y[i : i + 8]) for i in range(0, 40, 8)]
    on_host, on_phone = here.trainer(), there.trainer(device_with_gpu.url)
    expected = [on_host.step(x, y, lr=0.05) for x, y in data]
    losses = [on_phone.step(x, y, lr=0.05) for x, y in data]
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    weights = on_host.parameters()
    for name, value in on_phone.parameters().items():
        np.testing.assert_allclose(value, weights[name], rtol=1e-3, atol=1e-5, err_msg=name)
    on_phone.session.close()
