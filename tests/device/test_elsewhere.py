"""A run on a phone that goes away for good goes on with another one, through the real adb."""

import subprocess
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.cli.main import main
from odtc.cli.training.devices import reconnect
from odtc.core.errors import ExitCode
from odtc.runtime_rpc import connect as connecting
from odtc.runtime_rpc.adb import local_tracker, state
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.standin.adb_phone import AdbPhone, adb_phone
from tests.device.adb_host import plug_in, wait_until_free
from tests.meanwhile import as_soon_as

pytestmark = [pytest.mark.device, pytest.mark.slow]

BATCH, STEPS = 32, 12


def train(folder: Path, checkpoint: Path, *devices: str) -> int:
    words = ["train", folder / "d.odtc", "--data", folder / "d.npz", "--lr", "0.01"]
    often = ["--steps", STEPS, "--checkpoint", checkpoint, "--checkpoint-every", 2]
    return main([str(word) for word in [*words, *often, *devices]])


def test_it_goes_on_to_the_same_bits(
    ready: AdbPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(connecting, "DEFAULT", Limits(beat=0.5, silence=3.0, run=60.0))
    monkeypatch.setattr(reconnect, "SECONDS", 2.0)
    onnx.save(digits_model(), tmp_path / "d.onnx")
    update = odtc.SGD(momentum=0.9)
    odtc.compile(tmp_path / "d.onnx", "android-cpu", batch=BATCH, optimizer=update).save(
        tmp_path / "d.odtc"
    )
    x, y, *_ = digits_data()
    np.savez(tmp_path / "d.npz", x=x, y=y)
    whole, checkpoint = tmp_path / "whole", tmp_path / "checkpoint"
    second = f"adb://{ready.serial}"
    assert train(tmp_path, whole, "--device", second) == ExitCode.OK
    with ExitStack() as stack:
        phone = stack.enter_context(adb_phone())
        plug_in(phone)

        def strike() -> None:
            psutil.Process(phone.pid).kill()
            stack.close()
            subprocess.run(["adb", "disconnect", phone.serial], check=False)

        first = f"adb://{phone.serial}"
        with as_soon_as(checkpoint.exists, strike):
            code = train(tmp_path, checkpoint, "--device", first, "--elsewhere", second)
    said = capsys.readouterr().err
    known = state.find(phone.serial)
    assert known
    state.forget(phone.serial)
    local_tracker.stop_if_unused(known.tracker)
    assert code == ExitCode.OK, said
    assert f"{first} does not come back; trying {second}" in said
    assert f"the device is {second} now; going on from step " in said
    expected, found = load_file(whole), load_file(checkpoint)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(value, expected[name]) for name, value in found.items())
    wait_until_free(ready)
