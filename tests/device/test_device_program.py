"""odtc-device for 64-bit ARM, of Linux and of Android, under emulation: the bits of TVM there."""

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


def test_it_trains_to_the_same_bits(phone, phone_with_tvm, tmp_path: Path) -> None:
    onnx.save(tower(layers=2), path := tmp_path / "tower.onnx")
    update = odtc.Update(odtc.AdamW(), ema=0.9)
    artifact = odtc.compile(path, "linux-arm64-cpu{mcpu=cortex-a76}", batch=4, optimizer=update)
    for_phones = odtc.compile(path, "android-cpu{mcpu=cortex-a76}", batch=4, optimizer=update)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(artifact.manifest.inputs[0].shape, np.float32)
    y = np.arange(4, dtype=np.int32)
    with (
        serving(tmp_path / "sessions", server=ARM) as url,
        artifact.trainer(device=url, threads=2) as there,
        for_phones.trainer(device=phone.url, threads=2) as on_phone,
        artifact.trainer(device=phone_with_tvm.url, threads=2) as by_tvm,
    ):
        info = there.session.info()
        assert (info["machine"], info["emulated"]) == ("aarch64", True)
        for _ in range(STEPS):
            loss = by_tvm.step(x, y, lr=0.01)
            assert [each.step(x, y, lr=0.01) for each in (there, on_phone)] == [loss, loss]
        evaluated, kept = by_tvm.evaluate(x, ema=True), everything(by_tvm, tmp_path / "tvm")
        for number, each in enumerate((there, on_phone)):
            np.testing.assert_array_equal(each.evaluate(x, ema=True), evaluated)
            # Of which artifact they are differs.
            found = everything(each, tmp_path / str(number))
            assert found | {name: kept[name] for name in ("run", "sha256")} == kept
