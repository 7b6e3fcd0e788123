"""odtc-device for 64-bit ARM, under emulation: the bits of TVM there."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from tests.needs import needs_emulated_arm
from tests.numeric.plans.test_memory_budget import tower
from tests.runtime_rpc.own_server import ARM, serving
from tests.runtime_rpc.trainer.test_resume import everything

STEPS = 3

pytestmark = [pytest.mark.device, needs_emulated_arm()]


def test_it_trains_to_the_same_bits(phone_with_tvm, tmp_path: Path) -> None:
    onnx.save(tower(layers=2), path := tmp_path / "tower.onnx")
    update = odtc.Update(odtc.AdamW(), ema=0.9)
    artifact = odtc.compile(path, "linux-arm64-cpu", batch=4, optimizer=update)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(artifact.manifest.inputs[0].shape, np.float32)
    y = np.arange(4, dtype=np.int32)
    with (
        serving(tmp_path / "sessions", server=ARM) as url,
        artifact.trainer(device=url, threads=2) as there,
        artifact.trainer(device=phone_with_tvm.url, threads=2) as by_tvm,
    ):
        info = there.session.info()
        assert (info["machine"], info["emulated"]) == ("aarch64", True)
        for _ in range(STEPS):
            assert there.step(x, y, lr=0.01) == by_tvm.step(x, y, lr=0.01)
        np.testing.assert_array_equal(there.evaluate(x, ema=True), by_tvm.evaluate(x, ema=True))
        assert everything(there, tmp_path / "there") == everything(by_tvm, tmp_path / "tvm")
