"""What is written for sending names no device, host, user or home folder."""

import getpass
import socket
from pathlib import Path

import pytest

from odtc.core.disk import sendable as module
from odtc.core.disk.row_file import RowFile
from odtc.core.disk.sendable import hide_serial, sendable
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.connect import parse_place

SERIAL = "R58M12ABCDE"


@pytest.fixture(autouse=True)
def user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone at a computer that has seen no device yet."""
    for names in ("_serials", "_hosts"):
        monkeypatch.setattr(module, names, {})
    monkeypatch.setattr(socket, "gethostname", lambda: "wonder.land.example")
    monkeypatch.setenv("LOGNAME", "alice")
    monkeypatch.setenv("HOME", "/home/alice")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no file /home/alice/models/a.onnx", "no file ~/models/a.onnx"),
        ("/scratch/alice/a.onnx", "/scratch/USER/a.onnx"),
        ("alice@wonder.land.example: no route", "USER@HOST: no route"),
        ("wonder does not answer", "HOST does not answer"),
        # These are no names of the user, the host or the folder.
        ("alice", "alice"),
        ("for alice-cpu in malice", "for alice-cpu in malice"),
        ("/mnt/home/alicex", "/mnt/home/alicex"),
        ("wonderful: wonder-2", "wonderful: wonder-2"),
    ],
)
def test_the_user_and_the_computer(text: str, expected: str) -> None:
    assert sendable(text) == expected


def test_names_that_everybody_has_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    said = "not settable: the server does not run as root at localhost"
    assert sendable(said) == said


@pytest.mark.parametrize(
    "said",
    [
        f"adb knows no phone {SERIAL!r}",
        f"`adb -s {SERIAL} push a b` failed",
        f"the artifact is for x86_64; adb://{SERIAL} is aarch64",
        f"odtc-{SERIAL}-tracker",
        SERIAL,
    ],
)
def test_a_phone_that_was_asked(said: str) -> None:
    Adb(SERIAL)
    assert sendable(said) == said.replace(SERIAL, "SERIAL")


def test_a_phone_on_the_network_has_several_names() -> None:
    Adb("192.168.0.7:5555")
    said = "adb://192.168.0.7%3A5555, 192.168.0.7:5555, rpc://127.0.0.1:9190/192.168.0.7-5555"
    assert sendable(said) == "adb://SERIAL, SERIAL, rpc://127.0.0.1:9190/SERIAL"


def test_the_host_of_a_tracker() -> None:
    for host in ("farm.example", "127.0.0.1"):
        parse_place(f"rpc://{host}:9190/pixel")
    said = "no tracker answers at farm.example:9190, and one at 127.0.0.1:9190"
    assert sendable(said) == said.replace("farm.example", "TRACKER")


def test_a_host_that_is_called_as_a_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "model")
    parse_place("rpc://odtc:9190/pixel")
    head = {"versions": {"odtc": "0.1.0"}, "model": "digits", "engine": "odtc"}
    assert sendable(head) == head
    assert sendable("rpc://odtc:9190/pixel") == "rpc://TRACKER:9190/pixel"


def test_a_value_keeps_its_form() -> None:
    hide_serial(SERIAL)
    value = {"inputs": {"/home/alice/a.odtc": 1}, "row": (SERIAL, [None, 1.5, True])}
    assert sendable(value) == {"inputs": {"~/a.odtc": 1}, "row": ("SERIAL", [None, 1.5, True])}


class Row:
    def to_dict(self) -> dict[str, str]:
        return {"reason": f"adb://{SERIAL} is lost; see /home/alice/log"}


def test_a_file_of_rows_is_written_so_and_goes_on(tmp_path: Path) -> None:
    hide_serial(SERIAL)
    for _ in range(2):
        RowFile(tmp_path / "rows", "sweep", {"of": "/home/alice/a"}, lambda _: Row()).add(Row())
    assert (tmp_path / "rows").read_text().splitlines() == [
        '{"sweep": {"of": "~/a"}}',
        *['{"reason": "adb://SERIAL is lost; see ~/log"}'] * 2,
    ]
