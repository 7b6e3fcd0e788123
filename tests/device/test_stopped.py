"""A phone that its user stops stays so: what was at work there does not set it up again."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import onnx
import pytest

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.backends.targets import parse_target
from odtc.cli.main import main
from odtc.cli.training.devices import reconnect
from odtc.core.errors import DeviceError, ExitCode
from odtc.runtime_rpc.adb import setup, state
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from odtc.runtime_rpc.sweep.row import SweepRow
from odtc.runtime_rpc.sweep.sweep import Sweep
from odtc.tuner import tuning
from tests.device.adb_host import server_processes
from tests.meanwhile import as_soon_as

pytestmark = pytest.mark.device

BATCH = 32


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact for the phone, and data."""
    folder = tmp_path_factory.mktemp("digits")
    onnx.save(digits_model(), folder / "d.onnx")
    odtc.compile(folder / "d.onnx", "android-cpu", batch=BATCH).save(folder / "d.odtc")
    x, y, *_ = digits_data()
    np.savez(folder / "d.npz", x=x, y=y)
    return folder


@pytest.fixture
def phone(plugged: AdbPhone) -> AdbPhone:
    setup.set_up(plugged.serial, tracker=0)
    return plugged


def stopped_when(phone: AdbPhone, ready: Callable[[], bool]) -> AbstractContextManager[None]:
    """The phone is stopped while the block is at work, as soon as that is ready."""
    return as_soon_as(ready, lambda: setup.stop(phone.serial))


def train(files: Path, checkpoint: Path, *devices: str) -> int:
    words = ["train", files / "d.odtc", "--data", files / "d.npz", "--lr", 0.01, "--steps", 500]
    often = ["--checkpoint", checkpoint, "--checkpoint-every", 2]
    return main([str(word) for word in [*words, *often, *devices]])


def check_stopped(phone: AdbPhone) -> None:
    assert state.find(phone.serial) is None
    assert server_processes(phone) == []


def test_a_run_ends(
    phone: AdbPhone, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with stopped_when(phone, checkpoint.exists):
        code = train(files, checkpoint, "--device", f"adb://{phone.serial}")
    assert code == ExitCode.DEVICE
    assert "the phone was stopped, by `odtc device stop`" in capsys.readouterr().err
    check_stopped(phone)


def test_a_run_goes_elsewhere_at_once(
    phone: AdbPhone,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(reconnect, "SECONDS", 1.0)
    checkpoint, here = tmp_path / "checkpoint", f"adb://{phone.serial}"
    with stopped_when(phone, checkpoint.exists):
        code = train(files, checkpoint, "--device", here, "--elsewhere", "rpc://127.0.0.1:1/other")
    said = capsys.readouterr().err
    assert code != ExitCode.OK
    assert f"{here} cannot go on (the phone was stopped, by `odtc device stop`); trying rpc" in said
    check_stopped(phone)


def test_a_sweep_ends(
    phone: AdbPhone,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured, begun = Sweep._measured, threading.Event()

    def telling(sweep: Sweep, *others) -> SweepRow:
        begun.set()
        return measured(sweep, *others)

    monkeypatch.setattr(Sweep, "_measured", telling)
    argv = ["sweep", files / "d.odtc", "--device", f"adb://{phone.serial}", "--cores", "all"]
    argv += ["--threads", 1, "--steps", 500, "--rounds", 2, "-o", tmp_path / "rows"]
    with stopped_when(phone, begun.is_set):
        code = main([str(word) for word in argv])
    assert code == ExitCode.DEVICE
    assert "the phone was stopped, by `odtc device stop`" in capsys.readouterr().err
    check_stopped(phone)


def test_a_tuner_leaves_it_alone(phone: AdbPhone) -> None:
    url, target = f"adb://{phone.serial}", parse_target("android-cpu")
    tuning._opener(url, target)().close()
    setup.stop(phone.serial)
    with pytest.raises(DeviceError, match="was stopped"):
        tuning._opener(url, target)()
    check_stopped(phone)
