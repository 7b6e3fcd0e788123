"""Keys of phones: what a user calls one is read by the phone's shell, and is no command there."""

import json

import pytest

import odtc
from odtc.cli.main import main
from odtc.core.errors import ExitCode
from odtc.runtime_rpc.adb import server, state
from odtc.runtime_rpc.standin.adb_phone import AdbPhone
from tests.device.adb_host import adb, wait_until_free

pytestmark = pytest.mark.device

# Each would make a file in the server's folder if the shell read it, or would end its word.
KEYS = (
    "$(touch${IFS}made)",
    "`touch${IFS}made`",
    "o'brien';touch${IFS}made;'",
    '"a"&&touch${IFS}made',
    "*|>made\\",
    "--emulated",
)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_one_word(plugged: AdbPhone, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    serial = plugged.serial
    words = ["device", "setup", serial, f"--key={key}", "--tracker", "0", "--json"]
    assert main(words) == ExitCode.OK
    told = json.loads(capsys.readouterr().out)
    assert told["key"] == key
    odtc.connect(told["url"]).close()
    wait_until_free(plugged)
    assert "made" not in adb("-s", serial, "shell", f"ls {server.FOLDER}").split()
    assert main(["device", "stop", serial]) == ExitCode.OK
    capsys.readouterr()


@pytest.mark.parametrize("key", ["", " ", "my phone", "a/b", "a\nb", "\t", "\udc80", "k" * 65])
def test_what_no_url_can_have_is_refused(
    key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any phone is looked for."""
    monkeypatch.setenv("PATH", "")
    assert main(["device", "setup", "S", "--key", key]) == ExitCode.USAGE
    said = "cannot be a key" if key else "--key is given an empty string"
    assert said in capsys.readouterr().err
    assert state.find("S") is None
