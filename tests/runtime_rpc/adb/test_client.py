"""What `adb devices -l` prints, read by a program that prints it in adb's place."""

import json
import os
from pathlib import Path

import pytest

import odtc
from odtc.cli.main import main
from odtc.core.errors import DeviceError, ExitCode
from odtc.runtime_rpc.adb import client

STARTED = "* daemon not running; starting now at tcp:5037\n* daemon started successfully\n"


@pytest.fixture
def prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def call(*lines: str, before: str = "") -> None:
        text = before + "\n".join(["List of devices attached", *lines, "", ""])
        (tmp_path / "said").write_text(text)
        program = tmp_path / "adb"
        program.write_text(f"#!/bin/sh\ncat '{tmp_path / 'said'}'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return call


@pytest.mark.parametrize(
    ("line", "serial", "state", "model"),
    [
        (
            "R5CT                   device usb:1-1 product:p model:Pixel_8 device:d transport_id:3",
            "R5CT",
            "device",
            "Pixel 8",
        ),
        (
            "adb-R5 (2)._adb-tls-connect._tcp device product:p model:P device:d transport_id:3",
            "adb-R5 (2)._adb-tls-connect._tcp",
            "device",
            "P",
        ),
        ("R5CT                   unauthorized usb:1-1 transport_id:3", "R5CT", "unauthorized", ""),
        ("device-7               offline usb:1-1", "device-7", "offline", ""),
        (
            "????????????           no permissions (user in plugdev group; are your udev rules "
            "wrong?); see [http://developer.android.com/tools/device.html] usb:1-1 transport_id:1",
            "????????????",
            "no permissions",
            "",
        ),
        ("R5CT\trecovery", "R5CT", "recovery", ""),
        ("R5CT", "R5CT", "unknown", ""),
    ],
)
def test_a_line_of_a_phone(prints, line: str, serial: str, state: str, model: str) -> None:
    prints(line, before=STARTED)
    assert client.listed() == [client.Listed(serial, state, model)]


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        ("unauthorized", "allow debugging"),
        ("authorizing", "allow debugging"),
        ("sideload", "start Android"),
        ("offline", "adb reconnect"),
        ("connecting", "plug the phone in again"),
    ],
)
def test_what_to_do_in_a_state(prints, state: str, hint: str) -> None:
    prints(f"R5CT  {state} usb:1-1", "other  device")
    with pytest.raises(DeviceError, match=f"adb calls it '{state}'(.|\n)*{hint}"):
        client.Adb("R5CT").check()


def test_a_url_has_no_space(prints, capsys: pytest.CaptureFixture[str]) -> None:
    prints("adb-R5 (2)._adb-tls-connect._tcp offline")
    assert main(["devices", "--json"]) == ExitCode.OK
    listed = json.loads(capsys.readouterr().out)["devices"][0]
    assert listed["url"] == "adb://adb-R5%20%282%29._adb-tls-connect._tcp"
    with pytest.raises(DeviceError, match="'offline'"):
        odtc.connect(listed["url"])
