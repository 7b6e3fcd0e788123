"""A run whose device is gone for good goes on with another one, as if nothing had been."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.cli.main import main
from odtc.cli.training.checkpoints import Checkpoints
from odtc.cli.training.devices import reconnect
from odtc.cli.training.devices.reconnect import RecoverableTrainer
from odtc.cli.training.running import Running
from odtc.core.errors import DeviceError, DeviceLostError, ExitCode
from odtc.runtime_rpc.tracker.greeting import status
from tests.meanwhile import as_soon_as
from tests.runtime_rpc.own_server import ARM, NATIVE, address, serving

STEPS = 40
AT_THE_END = "is written at the end; a run whose device is lost before"


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

    with as_soon_as(checkpoint.exists, end.close):
        code = train(files, checkpoint, "--device", first, "--elsewhere", second)
    said = capsys.readouterr().err
    assert code == ExitCode.OK, said
    assert f"{first} does not come back; trying {second}" in said
    assert f"the device is {second} now; going on from step " in said
    assert AT_THE_END not in said
    expected, found = load_file(whole), load_file(checkpoint)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(value, expected[name]) for name, value in found.items())


def wait_until_free(url: str) -> None:
    deadline = time.monotonic() + 15
    while True:
        said = status(address(url), 5.0, url)
        assert said is not None
        if not said["busy"]:
            return
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


@contextmanager
def on_one_core() -> Iterator[None]:
    """A block in which what is started may run on one core alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def test_it_goes_on_with_what_a_device_has(
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One that cannot run the step is passed over; one with less of all takes the run over."""
    monkeypatch.setattr(reconnect, "SECONDS", 1.0)
    checkpoint, storage = tmp_path / "checkpoint", tmp_path / "storage"
    storage.mkdir()
    with ExitStack() as stack, ExitStack() as first_alone:
        first = first_alone.enter_context(serving(tmp_path / "first", server=NATIVE))
        other = stack.enter_context(serving(tmp_path / "other", server=ARM))
        with on_one_core():
            last = stack.enter_context(serving(tmp_path / "last", server=NATIVE))

        def strike() -> None:
            first_alone.close()
            shutil.rmtree(storage)
            storage.touch()

        options = ["--cores", "all", "--threads", "2", "--storage", str(storage), "--offload-state"]
        with as_soon_as(checkpoint.exists, strike):
            code = train(files, checkpoint, "--device", first, *options, "--elsewhere", other, last)
        wait_until_free(last)
    said = capsys.readouterr().err
    assert code == ExitCode.OK, said
    assert f"{first} does not come back; trying {other}" in said
    assert f"{other} cannot go on (the artifact is for x86_64 (" in said
    assert f"trying {last}" in said
    assert f"note: {last}: --threads 2 is above the number of cores; it takes 1" in said
    assert f"note: {last}: no file in place of memory: " in said
    assert f"; --storage is left out\nthe device is {last} now; going on from step " in said
    assert train(files, tmp_path / "whole") == ExitCode.OK
    expected, found = load_file(tmp_path / "whole"), load_file(checkpoint)
    assert all(np.array_equal(value, expected[name]) for name, value in found.items())


def test_one_that_fails_before_its_first_step_is_left(
    files: Path,
    devices: tuple[str, ExitStack, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Such as one whose CPU lacks an instruction; where there is no other, its error is told."""
    monkeypatch.setattr(reconnect, "SECONDS", 0.0)
    first, end, second = devices
    with serving(tmp_path / "third", server=NATIVE) as third:
        running = Running(first, None, False, None, None, False, None, 1, [second, third])
        checkpoints = Checkpoints(tmp_path / "checkpoint", None, 0, None, None)
        run = RecoverableTrainer(odtc.load(files / "d.odtc"), running, checkpoints, {})
        on: list[str] = []

        def work(trainer: odtc.Trainer) -> None:
            on.append(trainer.session.name)
            if len(on) == 1:
                end.close()
                raise DeviceLostError("the device was lost")
            raise DeviceError("the device could not run the code")

        with pytest.raises(DeviceError, match="could not run the code"):
            run.through(work)
        run.trainer.session.close()
    assert on == [first, second, third]
    said = capsys.readouterr().err
    assert f"note: {tmp_path / 'checkpoint'} {AT_THE_END} begins again at step 0, unless" in said
    assert f"{second} cannot go on (the device could not run the code); trying {third}" in said


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


def test_what_is_not_there_is_said_at_the_start(
    files: Path,
    devices: tuple[str, ExitStack, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of a wrong name nobody wants to hear when the device was lost, hours later."""
    first, _, second = devices
    adb = tmp_path / "adb"
    adb.write_text("#!/bin/sh\necho List of devices attached\n")
    adb.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    there = ["--device", first, "--elsewhere", second]
    away = ["adb://PIXEL", f"{second}-2", "rpc://127.0.0.1:1/other"]
    assert train(files, tmp_path / "checkpoint", *there, *away) == ExitCode.OK
    notes = [line for line in capsys.readouterr().err.splitlines() if "--elsewhere" in line]
    reasons = ("adb knows no phone 'PIXEL'; it knows: none", "no device", "no RPC tracker answers")
    for note, url, reason in zip(notes, away, reasons, strict=True):
        assert note.startswith(f"note: --elsewhere {url} is not there now: {reason}")
