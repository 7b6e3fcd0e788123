"""What `odtc device` says where something is wrong with adb or a phone, through the real adb."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.adb import server
from odtc.runtime_rpc.standin import adb_phone
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb, adb_server, plugged_in, server_processes

pytestmark = pytest.mark.device

# Of a message with the computer's public key.
SHOWN = (3).to_bytes(4, "little")
ACTIONS = ("setup", "doctor", "shell")


@pytest.fixture(scope="module", autouse=True)
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with adb_server(tmp_path_factory.mktemp("host")):
        yield


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """All that a command prints that must fail with an exit code."""

    def call(code: ExitCode, *words: str) -> str:
        assert main(["device", *words]) == code, words
        found = capsys.readouterr()
        return found.out + found.err

    return call


def received(client: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = client.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def ask_for_a_key(client: socket.socket) -> None:
    """A phone whose user has not allowed this computer, and is shown its key at last."""
    token = bytes(20)
    check = int.from_bytes(b"AUTH", "little") ^ 0xFFFFFFFF
    numbers = (int.from_bytes(b"AUTH", "little"), 1, 0, len(token), 0, check)
    head = b"".join(each.to_bytes(4, "little") for each in numbers)
    with suppress(EOFError, OSError):
        while True:
            asked = received(client, 24)
            received(client, int.from_bytes(asked[12:16], "little"))
            if asked[:8] != b"AUTH" + SHOWN:
                client.sendall(head + token)


def say_nothing(client: socket.socket) -> None:
    with suppress(OSError):
        client.recv(1, socket.MSG_WAITALL)


@contextmanager
def phone_that(does: Callable[[socket.socket], None], state: str) -> Iterator[str]:
    """What listens as phones do, once adb has it on its list in some state; and its serial."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=does, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        serial = f"127.0.0.1:{listener.getsockname()[1]}"
        with subprocess.Popen(["adb", "connect", serial], stdout=subprocess.DEVNULL) as asking:
            deadline = time.monotonic() + 60
            while f"{serial}\t{state}" not in adb("devices"):
                assert time.monotonic() < deadline, adb("devices")
                time.sleep(0.1)
            yield serial
            asking.kill()
    deadline = time.monotonic() + 60
    while serial in adb("devices"):
        assert time.monotonic() < deadline
        subprocess.run(["adb", "disconnect", serial], check=False, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    ("does", "state", "hint"),
    [
        (ask_for_a_key, "unauthorized", "unlock the phone and allow debugging from this computer"),
        (say_nothing, "offline", "plug the phone in again, or run `adb reconnect offline`"),
    ],
    ids=["unauthorized", "offline"],
)
def test_a_phone_that_cannot_be_used(
    says: Callable[..., str], does: Callable[[socket.socket], None], state: str, hint: str
) -> None:
    with phone_that(does, state) as serial:
        for action in ACTIONS:
            said = says(ExitCode.DEVICE, action, serial)
            assert f"the phone cannot be used: adb calls it {state!r}" in said
            assert hint in said


def test_no_such_phone(says: Callable[..., str]) -> None:
    for action in ACTIONS:
        said = says(ExitCode.DEVICE, action, "R5CT")
        assert "adb knows no phone 'R5CT'; it knows: none" in said
        assert "plug it in and allow USB debugging; `odtc devices` lists what there is" in said
    said = says(ExitCode.DEVICE, "stop", "R5CT")
    assert "the phone was not set up from here; phones that were: none" in said
    assert "hint: there is nothing to stop" in said


def test_no_serial(says: Callable[..., str]) -> None:
    said = says(ExitCode.USAGE, "setup")
    assert "error: no SERIAL is given, and no phones are known to adb\n" in said
    assert "hint: plug it in and allow USB debugging" in said
    said = says(ExitCode.USAGE, "stop")
    assert "error: no SERIAL is given, and no phones were set up from here\n" in said
    assert "error: the following arguments are required: SERIAL\n" in says(ExitCode.USAGE, "shell")
    with phone_that(say_nothing, "offline") as first, phone_that(say_nothing, "offline") as second:
        for action in ("setup", "doctor"):
            said = says(ExitCode.USAGE, action)
            assert "error: no SERIAL is given, and 2 phones are known to adb: " in said
            assert first in said
            assert second in said
            assert "hint: give one of these" in said


def test_no_adb(says: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for action in ACTIONS:
        said = says(ExitCode.DEVICE, action, "R5CT")
        assert "adb is not installed" in said
        assert "install Android's platform tools" in said
    assert main(["devices"]) == ExitCode.OK
    (tmp_path / "adb").write_bytes(b"MZ of another system")
    (tmp_path / "adb").chmod(0o755)
    said = says(ExitCode.DEVICE, "setup", "R5CT")
    assert f"adb cannot be started: Exec format error\n  where: {tmp_path}/adb" in said


def test_a_port_that_is_taken(says: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, plugged_in() as phone:
        port = other.getsockname()[1]
        said = says(ExitCode.DEVICE, "setup", phone.serial, "--tracker", str(port))
        assert f"no tracker can listen on port {port}: Address already in use\n" in said
        assert f"where: 127.0.0.1:{port}\n" in said
        assert "`odtc device setup SERIAL --tracker 0` takes a port that is free" in said


def test_no_room(says: Callable[..., str]) -> None:
    with plugged_in(disk="1100k") as phone:
        said = says(ExitCode.DEVICE, "setup", phone.serial)
        assert "the phone has 1100 KiB left; odtc's server needs " in said
        said = says(ExitCode.DEVICE, "doctor", phone.serial)
        assert "BROKEN  disk: 1100 KiB are left; odtc needs 1280 KiB" in said
        assert "free space on the phone" in said


def test_a_phone_that_executes_nothing(
    says: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SELinux refuses, the shell calls by the same words as any file that is no program."""
    monkeypatch.setattr(server, "_ASK_SECONDS", 1.0)
    monkeypatch.setitem(adb_phone.PROPERTIES, "odtc.emulator", "/etc/cpuinfo")
    with plugged_in() as phone:
        for action in (("setup", phone.serial, "--tracker", "0"), ("doctor", phone.serial)):
            said = says(ExitCode.DEVICE, *action)
            assert "ermission denied" in said
            assert (
                "lets adb's shell execute nothing in /data/local/tmp/odtc, by its SELinux" in said
            )


def test_the_only_phone_needs_no_serial(
    says: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    with plugged_in() as phone:
        assert main(["device", "setup", "--tracker", "0"]) == ExitCode.OK
        assert main(["device", "doctor"]) == ExitCode.OK
        away(phone)
        capsys.readouterr()
        assert main(["device", "stop"]) == ExitCode.OK
        said = capsys.readouterr().err
        assert f"note: {phone.serial} is forgotten, and no server was stopped there: adb" in said
        (process,) = server_processes(phone)
        process.kill()


def away(phone: AdbPhone) -> None:
    subprocess.run(["adb", "disconnect", phone.serial], check=True, env=os.environ)
