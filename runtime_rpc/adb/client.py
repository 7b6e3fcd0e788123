"""Calls the `adb` program, each call with a timeout; its environment selects adb's server."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from odtc.core.disk.sendable import hide_serial
from odtc.core.errors import DeviceError, DeviceLostError, UsageError
from odtc.runtime_rpc.adb.state import slug

SECONDS = 20.0
_PUSH_SECONDS = 300.0
_HEAD = "List of devices attached"
_ALLOW = "unlock the phone and allow debugging from this computer"
_ANDROID = "start Android on the phone, by `adb reboot` or its buttons"
_STATE_HINTS = {
    "unauthorized": _ALLOW,
    "authorizing": _ALLOW,
    "bootloader": _ANDROID,
    "recovery": _ANDROID,
    "rescue": _ANDROID,
    "sideload": _ANDROID,
    "offline": "plug the phone in again, or run `adb reconnect offline`",
    "no permissions": "let your user use the phone's USB device: see Android's page on udev rules",
}
_STATES = "|".join([*_STATE_HINTS, "device", "connecting", "detached", "host", "unknown"])
# A serial may have spaces: a phone that Wi-Fi found twice is `adb-X (2)._adb-tls-connect._tcp`.
_LINE = re.compile(rf"(?P<serial>.*?)\s+(?P<state>{_STATES})\b(?P<rest>.*)")
_ITS_SERVER = "run `adb kill-server`, and then again; another adb may have started its server"
_NO_PHONE_HINT = "plug it in and allow USB debugging; `odtc devices` lists what there is"


@dataclass(frozen=True)
class Listed:
    """A line of `adb devices`.

    Attributes:
        state: `device` if all is well.
        model: as the phone calls itself; '' if it does not say.
    """

    serial: str
    state: str
    model: str


@dataclass(frozen=True)
class Adb:
    """A phone.

    Attributes:
        serial: of the phone, as adb has it.
    """

    serial: str

    def __post_init__(self) -> None:
        _hide(self.serial)

    def check(self) -> None:
        """Checks that the phone is there and may be used.

        Raises:
            DeviceError: it is not.
        """
        state = next((one.state for one in listed() if one.serial == self.serial), None)
        if state is None:
            known = ", ".join(one.serial for one in listed()) or "none"
            raise DeviceError(
                f"adb knows no phone {self.serial!r}; it knows: {known}",
                where=self.serial,
                hint=_NO_PHONE_HINT,
            )
        if state != "device":
            raise DeviceError(
                f"the phone cannot be used: adb calls it {state!r}",
                where=self.serial,
                hint=_STATE_HINTS.get(state, "plug the phone in again"),
            )

    def run(self, *words: str, seconds: float = SECONDS) -> str:
        """Runs `adb WORDS` and returns what it prints.

        Raises:
            DeviceError: it failed.
            DeviceLostError: the phone does not answer.
        """
        return _run(["-s", self.serial, *words], self.serial, seconds)

    def shell(self, command: str, seconds: float = SECONDS) -> str:
        """Runs a command on the phone and returns what it prints.

        Raises:
            DeviceError: it failed.
            DeviceLostError: the phone does not answer.
        """
        return self.run("shell", command, seconds=seconds)

    def push(self, here: Path, there: str) -> None:
        """Copies a file to the phone.

        Raises:
            DeviceError: it failed, such as for lack of room.
        """
        self.run("push", str(here), there, seconds=_PUSH_SECONDS)


def listed() -> list[Listed]:
    """The phones that adb knows.

    Raises:
        DeviceError: there is no adb, or its server does not answer.
    """
    _, _, lines = _run(["devices", "-l"], "adb", SECONDS, _ITS_SERVER).partition(_HEAD)
    found = [_line(line) for line in lines.splitlines() if line.strip() and line[0] != "*"]
    for each in found:
        _hide(each.serial)
    return found


def _hide(serial: str) -> None:
    """No file that is sent has a serial, in whichever form."""
    for form in (serial, quote(serial, safe=""), slug(serial)):
        hide_serial(form)


def only_serial(known: Iterable[str], of: str) -> str:
    """The serial where none was given: the only one that there is.

    Args:
        known: those that there are.
        of: what they are, for the error.

    Raises:
        UsageError: there is none, or there are several.
    """
    found = list(known)
    if len(found) == 1:
        return found[0]
    raise UsageError(
        f"no SERIAL is given, and {len(found) or 'no'} phones {of}{': ' if found else ''}"
        f"{', '.join(found)}",
        where="SERIAL",
        hint="give one of these" if found else _NO_PHONE_HINT,
    )


def find_adb() -> str:
    """The path of adb.

    Raises:
        DeviceError: it is not installed.
    """
    path = shutil.which("adb")
    if path is None:
        raise DeviceError(
            "adb is not installed",
            where="PATH",
            hint="run `apt-get install adb`, or install Android's platform tools",
        )
    return path


def _line(line: str) -> Listed:
    found = _LINE.fullmatch(line)
    serial, state, rest = found.groups() if found else (line.strip(), "unknown", "")
    facts = dict(word.split(":", 1) for word in rest.split() if ":" in word)
    return Listed(serial, state, facts.get("model", "").replace("_", " "))


def _run(words: list[str], where: str, seconds: float, hint: str = "") -> str:
    try:
        done = subprocess.run(
            [find_adb(), *words],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except OSError as error:
        raise DeviceError(
            f"adb cannot be started: {error.strerror or error}",
            where=find_adb(),
            hint="install Android's platform tools for this machine",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DeviceLostError(
            f"`adb {' '.join(words)[:80]}` did not end within {seconds:g} s",
            where=where,
            hint="wake the phone and plug it in again; `adb kill-server` helps if adb hangs",
        ) from error
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines() or ["nothing"]
        raise DeviceError(
            f"`adb {' '.join(words)[:80]}` failed with status {done.returncode}: {said[-1]}",
            where=where,
            hint=hint or f"`odtc device doctor {where}` says what is wrong",
        )
    return done.stdout
