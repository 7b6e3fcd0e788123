"""Phones that this host has set up, remembered between two commands."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from odtc.core.disk.files import atomic_write
from odtc.core.disk.locks import wait_for_lock
from odtc.core.errors import OutputError

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Phone:
    """A phone that was set up.

    Attributes:
        serial: as adb has it.
        key: that it has at the tracker.
        port: of this host's loopback that is forwarded to its server.
        tracker: the tracker's port on this host's loopback.
    """

    serial: str
    key: str
    port: int
    tracker: int

    @property
    def url(self) -> str:
        """The address to give to `odtc.connect`."""
        return f"rpc://{LOOPBACK}:{self.tracker}/{self.key}"


def folder() -> Path:
    """The folder of this user's files."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "odtc" / "devices"


def make_folder() -> None:
    """Makes the folder.

    Raises:
        OutputError: it cannot be made, or not be written to.
    """
    try:
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        reason = "" if os.access(folder(), os.W_OK) else "it cannot be written to"
    except OSError as error:
        reason = str(error.strerror)
    if reason:
        raise OutputError(
            f"there is no folder for the phones that were set up: {reason}",
            where=str(folder()),
            hint="name a folder that can be written to in XDG_STATE_HOME",
        )


def phones() -> Iterator[Phone]:
    """All phones that were set up."""
    for path in sorted(folder().glob("phone-*.json")):
        with suppress(OSError, ValueError, TypeError):
            yield Phone(**json.loads(path.read_text()))


def find(serial: str) -> Phone | None:
    """The phone of that serial, if it was set up."""
    return next((phone for phone in phones() if phone.serial == serial), None)


def save(phone: Phone) -> None:
    """Remembers a phone.

    Raises:
        OutputError: it cannot be written.
    """
    make_folder()
    with atomic_write(_path(phone.serial)) as temporary:
        temporary.write_text(json.dumps(asdict(phone)))


def forget(serial: str) -> None:
    """Forgets a phone."""
    _path(serial).unlink(missing_ok=True)


@contextmanager
def alone(name: str) -> Iterator[None]:
    """A lock among this user's processes, for one phone by its serial, or another thing.

    Raises:
        OutputError: there is no place for it.
    """
    make_folder()
    with _path(name).with_suffix(".lock").open("w") as lock:
        wait_for_lock(lock.fileno())
        yield


def slug(text: str) -> str:
    """Text that may be in a file's name and in a URL."""
    return re.sub(r"[^\w.-]+", "-", text)


def _path(serial: str) -> Path:
    return folder() / f"phone-{slug(serial)}.json"
