"""A phone on which odtc is not what it was is set up again."""

import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

import odtc
from odtc.core.errors import DeviceError
from odtc.core.process.progress import silent
from odtc.runtime_rpc.adb import server, setup, state
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.native.android import device
from odtc.runtime_rpc.standin.adb_phone import AdbPhone, adb_phone
from tests.device.adb_host import plug_in, wait_until_free
from tests.device.faults.causing import train
from tests.meanwhile import as_soon_as
from tests.runtime_rpc.own_server import OTHER_SOURCES, of_other_sources

pytestmark = pytest.mark.device


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
            psutil.Process(phone.pid).kill()
            before.close()
            port = int(phone.serial.rpartition(":")[2])
            plug_in(after.enter_context(adb_phone(port)))

        with as_soon_as(checkpoint.exists, strike):
            code = train(files, f"adb://{phone.serial}", checkpoint)
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
