"""A run whose device is gone for good goes on with another one, as if nothing had been."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.cli.main import main
from odtc.cli.training import reconnect
from odtc.core.errors import ExitCode
from tests.runtime_rpc.own_server import NATIVE, serving

STEPS = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "d.onnx")
    odtc.compile(folder / "d.onnx", "host-cpu", batch=32, optimizer=odtc.SGD(momentum=0.9)).save(
        folder / "d.odtc"
    )
    x, y, *_ = digits_data()
    np.savez(folder / "d.npz", x=x, y=y)
    return folder


@pytest.fixture
def devices(tmp_path: Path) -> Iterator[tuple[str, ExitStack, str]]:
    """The URLs of two, and what ends the first."""
    with ExitStack() as first, serving(tmp_path / "second", server=NATIVE) as second:
        yield first.enter_context(serving(tmp_path / "first", server=NATIVE)), first, second


def train(files: Path, checkpoint: Path, *options: str) -> int:
    command = ["train", files / "d.odtc", "--data", files / "d.npz", "--lr", 0.01, "--steps", STEPS]
    often = ["--checkpoint", checkpoint, "--checkpoint-every", 2, "--steps-per-call", 1]
    return main([str(word) for word in [*command, *often, *options]])


def test_it_goes_on_to_the_same_bits(
    files: Path,
    devices: tuple[str, ExitStack, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(reconnect, "SECONDS", 1.0)
    first, end, second = devices
    whole, checkpoint = tmp_path / "whole", tmp_path / "checkpoint"
    assert train(files, whole) == ExitCode.OK

    def strike() -> None:
        while not checkpoint.exists():
            time.sleep(0.001)
        end.close()

    thread = threading.Thread(target=strike)
    thread.start()
    code = train(files, checkpoint, "--device", first, "--elsewhere", second)
    thread.join()
    said = capsys.readouterr().err
    assert code == ExitCode.OK, said
    assert f"{first} does not come back; trying {second}" in said
    assert f"the device is {second} now; going on from step " in said
    expected, found = load_file(whole), load_file(checkpoint)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(value, expected[name]) for name, value in found.items())


@pytest.mark.parametrize("options", [[], ["--device", "rpc://127.0.0.1:1/key"]])
def test_it_wants_a_device_and_a_checkpoint(
    files: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", str(files / "d.odtc"), "--data", str(files / "d.npz"), "--lr", "0.1"]
    elsewhere = ["--steps", "1", "--elsewhere", "rpc://127.0.0.1:1/other"]
    assert main([*command, *options, *elsewhere]) == ExitCode.USAGE
    assert "hint: give --device and --checkpoint, too" in capsys.readouterr().err


def test_what_is_no_device_is_told_before_the_run(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", str(files / "d.odtc"), "--data", str(files / "d.npz"), "--lr", "0.1"]
    run = ["--device", "rpc://127.0.0.1:1/key", "--checkpoint", str(tmp_path / "c")]
    elsewhere = ["--elsewhere", "adb://A", "rpc://127.0.0.1:1/b", "pixel"]
    assert main([*command, *run, *elsewhere]) == ExitCode.USAGE
    assert "'pixel' is not a device" in capsys.readouterr().err
