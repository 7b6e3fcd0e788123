"""Faults of a phone: the right error comes in time, and the phone is usable again at once."""

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from safetensors.numpy import load_file

import odtc
from benchmarks.models.digits import digits_data, digits_model
from odtc.cli.main import main
from odtc.core.errors import DeviceBusyError, DeviceError, DeviceLostError
from odtc.core.process.progress import silent
from odtc.runtime_rpc import connect as connecting
from odtc.runtime_rpc.adb import local_tracker, server, setup, state
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.native.android import device
from odtc.runtime_rpc.standin.adb_phone import AdbPhone, adb_phone
from odtc.runtime_rpc.sweep.row import Configuration, SweepRow
from odtc.runtime_rpc.sweep.sweep import Sweep
from tests.device.adb_host import adb, plug_in, session_process, wait_until_free
from tests.fast import fast_if
from tests.runtime_rpc.own_server import OTHER_SOURCES, of_other_sources

pytestmark = pytest.mark.device

BATCH = 32
STEPS = 12
LIMITS = Limits(beat=0.5, silence=3.0, run=60.0)
ROUNDS = fast_if(lambda number: number == 0, range(20))
FULL = "/data/local/tmp/full"


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "DEFAULT", LIMITS)


@pytest.fixture(scope="module")
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


def train(files: Path, device: str, checkpoint: Path, *options: str) -> int:
    command = ["train", files / "digits.odtc", "--data", files / "digits.npz", "--lr", "0.01"]
    often = ["--steps", STEPS, "--checkpoint", checkpoint, "--checkpoint-every", 4]
    return main([str(word) for word in [*command, *often, "--device", device, *options]])


@pytest.fixture(scope="module")
def expected(files: Path, ready: AdbPhone) -> dict[str, np.ndarray]:
    """The weights after a run without faults."""
    assert train(files, f"adb://{ready.serial}", files / "whole") == 0
    return load_file(files / "whole")


def step_for_ever(trainer: odtc.Trainer) -> None:
    x, y, *_ = digits_data()
    while True:
        trainer.step(x[:BATCH], y[:BATCH], 0.001)


def step_slowly(trainer: odtc.Trainer) -> None:
    """A call that takes two seconds."""
    with trainer.session.guard():
        time.sleep(2)
        trainer.session.info()


def trainer_on(ready: AdbPhone, files: Path) -> odtc.Trainer:
    known = state.find(ready.serial)
    assert known
    return odtc.load(files / "digits.odtc").trainer(known.url)


@contextmanager
def soon(fault: Callable[[], object]) -> Iterator[None]:
    """The fault happens while the block is at work."""
    timer = threading.Timer(0.6, fault)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [
        (signal.SIGKILL, 12, "ended by SIGKILL"),
        (signal.SIGILL, 9, "could not run the code: .* ended by SIGILL"),
        (signal.SIGSTOP, 12, "was stopped"),
    ],
    ids=["killed", "illegal", "stopped"],
)
def test_a_session_that_ends_says_why(
    ready: AdbPhone, files: Path, kind: signal.Signals, code: int, text: str, number: int
) -> None:
    trainer = trainer_on(ready, files)
    began = time.monotonic()
    with (
        soon(lambda: session_process(ready).send_signal(kind)),
        pytest.raises(DeviceError, match=text) as caught,
    ):
        step_for_ever(trainer)
    assert caught.value.exit_code == code
    assert ready.serial.replace(":", "-") in str(caught.value)
    assert time.monotonic() - began < LIMITS.run / 2
    wait_until_free(ready)
    assert trainer_on(ready, files).steps == 0
    odtc.connect(f"adb://{ready.serial}").close()


@contextmanager
def frozen(phone: AdbPhone) -> Iterator[None]:
    processes = phone.processes()
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            # What is awake again ends what it finds lost, before its turn has come.
            with suppress(psutil.NoSuchProcess):
                process.resume()


@pytest.mark.parametrize("number", ROUNDS)
def test_a_frozen_phone_is_noticed(ready: AdbPhone, files: Path, number: int) -> None:
    trainer = trainer_on(ready, files)
    x, y, *_ = digits_data()
    trainer.step(x[:BATCH], y[:BATCH], 0.001)
    with frozen(ready):
        began = time.monotonic()
        with pytest.raises(DeviceLostError, match="no sign of life for 3 s"):
            step_for_ever(trainer)
        assert time.monotonic() - began < LIMITS.run / 2
        # The tracker still has it on its list: it never answers.
        known = state.find(ready.serial)
        assert known
        with pytest.raises(DeviceError, match=r"does not answer|in use"):
            odtc.connect(known.url, Limits(connect=1, request=1))
    wait_until_free(ready)
    trainer_on(ready, files).session.close()
    wait_until_free(ready)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_call_has_its_limit(ready: AdbPhone, files: Path, number: int) -> None:
    known = state.find(ready.serial)
    assert known
    session = odtc.connect(known.url, Limits(run=0.5))
    trainer = odtc.load(files / "digits.odtc").trainer(session)
    with pytest.raises(DeviceLostError, match=r"it took more than 0\.5 s"):
        step_slowly(trainer)
    wait_until_free(ready)


@pytest.mark.parametrize("number", ROUNDS)
def test_two_clients_of_one_phone(ready: AdbPhone, number: int) -> None:
    known = state.find(ready.serial)
    assert known
    first = odtc.connect(known.url)
    with pytest.raises(DeviceBusyError, match="is in use"):
        odtc.connect(known.url, Limits(request=1))
    threading.Timer(0.5, first.close).start()
    second = odtc.connect(known.url, Limits(request=10))
    assert second.info()["emulated"] is True
    second.close()
    wait_until_free(ready)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_full_disk_is_said_so(ready: AdbPhone, files: Path, number: int) -> None:
    with suppress(subprocess.CalledProcessError):
        adb("-s", ready.serial, "shell", f"dd if=/dev/zero of={FULL} bs=1M 2>/dev/null")
    try:
        with pytest.raises(DeviceError, match="the device's disk is full"):
            trainer_on(ready, files)
    finally:
        adb("-s", ready.serial, "shell", f"rm {FULL}")
    trainer_on(ready, files).session.close()
    wait_until_free(ready)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_tracker_that_starts_again_is_found(ready: AdbPhone, files: Path, number: int) -> None:
    known = state.find(ready.serial)
    assert known
    trainer = trainer_on(ready, files)
    state.forget(ready.serial)
    assert local_tracker.stop_if_unused(known.tracker)
    state.save(known)
    x, y, *_ = digits_data()
    assert trainer.step(x[:BATCH], y[:BATCH], 0.001) > 0
    assert local_tracker.ensure(known.tracker) == known.tracker
    trainer.session.close()
    deadline = time.monotonic() + 15
    while True:
        try:
            odtc.connect(known.url).close()
            break
        except DeviceError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    wait_until_free(ready)


def kill_session(phone: AdbPhone) -> None:
    session_process(phone).kill()


def pull_the_cable(phone: AdbPhone) -> None:
    adb("disconnect", phone.serial)
    time.sleep(1)
    plug_in(phone)


def freeze(phone: AdbPhone) -> None:
    with frozen(phone):
        time.sleep(LIMITS.silence + 2)


@pytest.mark.parametrize("number", ROUNDS)
@pytest.mark.parametrize(
    "fault", fast_if(lambda fault: fault is kill_session, [kill_session, pull_the_cable, freeze])
)
def test_a_run_goes_on_as_if_nothing_had_been(
    ready: AdbPhone,
    files: Path,
    expected: dict[str, np.ndarray],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    fault: Callable[[AdbPhone], None],
    number: int,
) -> None:
    checkpoint = tmp_path / "checkpoint"

    def strike() -> None:
        while not checkpoint.exists():
            time.sleep(0.01)
        fault(ready)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        code = train(files, f"adb://{ready.serial}", checkpoint)
    finally:
        thread.join()
    said = capsys.readouterr().err
    assert code == 0, said
    assert "the device is back" in said
    found = load_file(checkpoint)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(value, expected[name]) for name, value in found.items())
    wait_until_free(ready)


@pytest.mark.parametrize("number", ROUNDS)
def test_a_sweep_goes_on_behind_a_session_that_died(
    ready: AdbPhone, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    measured = Sweep._measured

    def struck(sweep: Sweep, configuration: Configuration, *others) -> SweepRow:
        if configuration.model == "other":
            return measured(sweep, configuration, *others)
        with soon(lambda: kill_session(ready)):
            return measured(sweep, configuration, *others)

    monkeypatch.setattr(Sweep, "_measured", struck)
    other, rows = tmp_path / "other.odtc", tmp_path / "rows"
    shutil.copy(files / "digits.odtc", other)
    argv = ["sweep", files / "digits.odtc", other, "--device", f"adb://{ready.serial}"]
    argv += ["--cores", "all", "--threads", 1, "--steps", 40, "--rounds", 1, "-o", rows]
    assert main([str(word) for word in argv]) == 0
    died, whole = (json.loads(line) for line in rows.read_text().splitlines()[1:])
    assert "ended by SIGKILL" in died["reason"]
    assert died["seconds"] == []
    assert whole["reason"] == ""
    assert len(whole["seconds"]) == 40
    wait_until_free(ready)


def test_a_sweep_waits_for_a_cable_that_was_pulled(
    ready: AdbPhone,
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What was measured then is measured again: that it was pulled is no result."""
    measured, pulled = Sweep._measured, []

    def struck(sweep: Sweep, *others) -> SweepRow:
        if pulled:
            return measured(sweep, *others)
        pulled.append(True)
        with soon(lambda: pull_the_cable(ready)):
            return measured(sweep, *others)

    monkeypatch.setattr(Sweep, "_measured", struck)
    argv = ["sweep", files / "digits.odtc", "--device", f"adb://{ready.serial}", "--cores", "all"]
    argv += ["--threads", 1, "--steps", 40, "--rounds", 1, "-o", tmp_path / "rows"]
    assert main([str(word) for word in argv]) == 0
    (row,) = (json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()[1:])
    assert row["reason"] == ""
    assert len(row["seconds"]) == 40
    assert "; waiting for the device" in capsys.readouterr().err
    wait_until_free(ready)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_a_phone_that_starts_again_is_set_up_again(
    files: Path,
    expected: dict[str, np.ndarray],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    number: int,
) -> None:
    """All of it is gone: its processes, the ports that led to it, and what was pushed to it."""
    checkpoint = tmp_path / "checkpoint"
    with ExitStack() as before, ExitStack() as after:
        phone = before.enter_context(adb_phone())
        plug_in(phone)
        after.callback(subprocess.run, ["adb", "disconnect", phone.serial], check=False)
        setup.set_up(phone.serial, tracker=0)

        def strike() -> None:
            while not checkpoint.exists():
                time.sleep(0.01)
            psutil.Process(phone.pid).kill()
            before.close()
            port = int(phone.serial.rpartition(":")[2])
            plug_in(after.enter_context(adb_phone(port)))

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            code = train(files, f"adb://{phone.serial}", checkpoint)
        finally:
            thread.join()
        said = capsys.readouterr().err
        assert code == 0, said
        assert "the device is back" in said
        found = load_file(checkpoint)
        assert all(np.array_equal(value, expected[name]) for name, value in found.items())
        setup.stop(phone.serial)


def of_another_version(patched: pytest.MonkeyPatch) -> bytes:
    patched.setattr(device.metadata, "version", lambda _: "0.0.1")
    return device.android_device()


def of_another_build(_: pytest.MonkeyPatch) -> bytes:
    return of_other_sources(device.android_device())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
@pytest.mark.parametrize(
    ("other", "told"),
    [
        (of_another_version, r"odtc is 0\.0\.1 there and .* here"),
        (of_another_build, rf"or build: the hash of .* is {OTHER_SOURCES} there and .* here"),
    ],
    ids=["version", "build"],
)
def test_a_server_of_another_build_is_replaced(
    ready: AdbPhone,
    monkeypatch: pytest.MonkeyPatch,
    other: Callable[[pytest.MonkeyPatch], bytes],
    told: str,
    number: int,
) -> None:
    known = state.find(ready.serial)
    assert known
    with monkeypatch.context() as patched:
        program, phone = other(patched), Adb(ready.serial)
        server.push(phone, program, silent)
        server.stop(phone, known)
        server.start(phone, known, server.identity(program, known))
        setup._wait_until_registered(known, phone)
    with pytest.raises(DeviceError, match=told):
        odtc.connect(known.url)
    odtc.connect(f"adb://{ready.serial}").close()
    wait_until_free(ready)
