"""Setups of one phone: what fails leaves nothing behind, and nobody's session ends by another's."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import odtc
from odtc.cli.main import main
from odtc.core.errors import DeviceBusyError, DeviceError, ExitCode
from odtc.runtime_rpc.adb import server, setup, state
from odtc.runtime_rpc.adb.doctor import LinkCheck, examine
from odtc.runtime_rpc.standin import adb_phone
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb, plugged_in, server_processes, wait_until_free

pytestmark = pytest.mark.device


@contextmanager
def another_computer(folder: Path) -> Iterator[None]:
    """A block in which nothing is known of what was set up before."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(folder))
        yield


def last_check(phone: AdbPhone) -> LinkCheck:
    *_, last = examine(phone.serial)
    return last


def known(phone: AdbPhone) -> state.Phone:
    found = state.find(phone.serial)
    assert found
    return found


def test_a_session_does_not_end_by_a_setup(ready: AdbPhone, tmp_path: Path) -> None:
    session = odtc.connect(f"adb://{ready.serial}")
    with pytest.raises(DeviceBusyError, match=f"`odtc device stop {ready.serial}`"):
        setup.set_up(ready.serial, key="other")
    with another_computer(tmp_path), pytest.raises(DeviceBusyError, match="another computer"):
        setup.set_up(ready.serial, tracker=0)
    assert not list(tmp_path.rglob("tracker-*.json"))
    assert session.info()["emulated"]
    session.close()
    wait_until_free(ready)
    assert last_check(ready).well


def test_computers_take_turns(ready: AdbPhone, tmp_path: Path) -> None:
    with another_computer(tmp_path):
        theirs = setup.set_up(ready.serial, tracker=0)
        odtc.connect(theirs.url).close()
        wait_until_free(ready)
    assert "set the phone up since" in last_check(ready).said
    ours = setup.set_up(ready.serial)
    with another_computer(tmp_path):
        assert "set the phone up since" in last_check(ready).said
        setup.stop(ready.serial)
    assert last_check(ready).well
    odtc.connect(ours.url).close()
    wait_until_free(ready)


def test_another_key_leaves_nothing_of_the_first(plugged: AdbPhone) -> None:
    before = setup.set_up(plugged.serial, tracker=0)
    after = setup.set_up(plugged.serial, key="other")
    assert server.tracker_name(after) in adb("-s", plugged.serial, "reverse", "--list")
    assert server.tracker_name(before) not in adb("-s", plugged.serial, "reverse", "--list")
    setup.stop(plugged.serial)


def test_a_phone_is_no_other_one_of_its_key(ready: AdbPhone) -> None:
    first = setup.set_up(ready.serial)
    with plugged_in() as other:
        setup.set_up(other.serial, key=first.key, tracker=first.tracker)
        for phone in (ready, other):
            with pytest.raises(DeviceError, match="2 devices have the key"):
                odtc.connect(f"adb://{phone.serial}")
        odtc.connect(first.url).close()


def test_a_removed_folder_is_made_again(ready: AdbPhone) -> None:
    setup.set_up(ready.serial)
    adb("-s", ready.serial, "shell", f"rm -r {server.FOLDER}")
    odtc.connect(f"adb://{ready.serial}").close()
    wait_until_free(ready)


def check_nothing_left(phone: AdbPhone, folder: Path) -> None:
    assert phone.serial not in adb("forward", "--list")
    assert not adb("-s", phone.serial, "reverse", "--list").strip()
    assert not list(folder.rglob("*.json"))


@pytest.mark.parametrize(
    ("disk", "abi", "error", "check"),
    [
        ("512k", "arm64-v8a", "KiB left; odtc's", "KiB are left"),
        ("1g", "armeabi-v7a", "ABI is 'armeabi-v7a'", "ABI is 'armeabi-v7a'"),
    ],
)
def test_a_phone_that_cannot_be_set_up(
    plugged: AdbPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    disk: str,
    abi: str,
    error: str,
    check: str,
) -> None:
    monkeypatch.setitem(adb_phone.PROPERTIES, "ro.product.cpu.abi", abi)
    with plugged_in(disk=disk) as phone, another_computer(tmp_path):
        with pytest.raises(DeviceError, match=error):
            setup.set_up(phone.serial, tracker=0)
        check_nothing_left(phone, tmp_path)
        assert check in last_check(phone).said


def test_a_file_in_the_place_of_the_folder(plugged: AdbPhone, tmp_path: Path) -> None:
    with plugged_in() as phone, another_computer(tmp_path):
        adb("-s", phone.serial, "shell", f"touch {server.FOLDER}")
        with pytest.raises(DeviceError, match=r"cannot be used: .*exists(.|\n)*rm -r"):
            setup.set_up(phone.serial, tracker=0)
        check_nothing_left(phone, tmp_path)
        assert "cannot be written to" in last_check(phone).said


def test_the_log_of_a_server_is_shown_in_lines(
    ready: AdbPhone, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.set_up(ready.serial)
    server_processes(ready)[0].kill()
    assert main(["device", "doctor", ready.serial]) == ExitCode.DEVICE
    said = capsys.readouterr().out
    assert "ends with\n        {" in said
    assert f"run `odtc device setup {ready.serial}`" in said


@pytest.mark.parametrize("words", [["echo", "-n", "a"], ["--", "echo", "-n", "a"]])
def test_a_shell_takes_words_with_options(ready: AdbPhone, words: list[str]) -> None:
    command = [sys.executable, "-m", "odtc", "device", "shell", ready.serial, *words]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "a"


def test_a_shell_reads_commands_without_a_terminal(ready: AdbPhone) -> None:
    setup.set_up(ready.serial)
    command = [sys.executable, "-m", "odtc", "device", "shell", ready.serial]
    done = subprocess.run(
        command, input="pwd; exit 3\n", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{server.FOLDER}\n", "")


def test_no_folder_for_what_was_set_up(
    plugged: AdbPhone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert main(["device", "setup", plugged.serial]) == ExitCode.OUTPUT
    assert "XDG_STATE_HOME" in capsys.readouterr().err


def test_no_port_of_a_tracker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "setup", "any", "--tracker", "65536"]) == ExitCode.USAGE
    assert "from 0 to 65535" in capsys.readouterr().err
