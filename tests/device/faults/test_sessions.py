"""Faults of a session: the right error comes in time, and the phone is usable again at once."""

import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import odtc
from benchmarks.models.digits import digits_data
from odtc.core.errors import DeviceBusyError, DeviceError, DeviceLostError
from odtc.runtime_rpc.adb import local_tracker, state
from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb, session_process, wait_until_free
from tests.device.faults.causing import (
    BATCH,
    LIMITS,
    ROUNDS,
    frozen,
    soon,
    step_for_ever,
    trainer_on,
)

pytestmark = pytest.mark.device

FULL = "/data/local/tmp/full"


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


def step_slowly(trainer: odtc.Trainer) -> None:
    """A call that takes two seconds."""
    with trainer.session.guard():
        time.sleep(2)
        trainer.session.info()


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
