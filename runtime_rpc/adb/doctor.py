"""Checks each link between this host and a phone's server, in order, up to the first fault."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.adb import server, state
from odtc.runtime_rpc.adb.client import Adb, find_adb
from odtc.runtime_rpc.adb.ended import not_running
from odtc.runtime_rpc.adb.server import FOLDER, tracker_name
from odtc.runtime_rpc.adb.state import LOOPBACK, Phone
from odtc.runtime_rpc.tracker import greeting
from odtc.runtime_rpc.tracker.trackers import tracker_at

_SECONDS = 5.0
# A bound of odtc-device's size, which a setup brings.
_PROGRAM_KIB = 256


@dataclass(frozen=True)
class LinkCheck:
    """The check of one link.

    Attributes:
        well: whether it is as it should be.
        said: the result, as text.
        hint: what to do; '' where all is well.
    """

    name: str
    well: bool
    said: str
    hint: str = ""


def examine(serial: str) -> Iterator[LinkCheck]:
    """Checks each link; the first that is broken is the last."""
    adb = Adb(serial)
    phone = state.find(serial)
    looks: dict[str, Callable[[], str]] = {
        "adb": find_adb,
        "phone": lambda: _phone(adb),
        "disk": lambda: _disk(adb, server.ROOM_KIB + (0 if phone else _PROGRAM_KIB)),
        "set up": lambda: _known(phone, serial).url,
        "server": lambda: _process(adb, _known(phone, serial)),
        "forward": lambda: _forward(adb, _known(phone, serial)),
        "reverse": lambda: _reverse(adb, _known(phone, serial)),
        "answer": lambda: _answer(_known(phone, serial)),
        "tracker": lambda: _registered(_known(phone, serial)),
    }
    for name, look in looks.items():
        try:
            yield LinkCheck(name, True, look())
        except DeviceError as error:
            yield LinkCheck(name, False, error.what, error.hint or "")
            return


def _phone(adb: Adb) -> str:
    adb.check()
    return f"is there, {server.check_abi(adb)}"


def _disk(adb: Adb, needed: int) -> str:
    """Room where the server's folder is, or will be: so many KiB."""
    said = adb.shell(
        f"at={FOLDER}; test -e $at || at=/data/local/tmp; "
        "test -d $at && test -w $at && df -k $at | tail -n 1 || true"
    ).strip()
    if not said:
        raise server.no_folder(adb, "it cannot be written to")
    free = server.free_kib(said)
    if free < needed:
        raise DeviceError(
            f"{free} KiB are left; odtc needs {needed} KiB",
            where=adb.serial,
            hint=server.FREE_SPACE,
        )
    return said


def _known(phone: Phone | None, serial: str) -> Phone:
    if phone is None:
        raise _broken("the phone was not set up from here", serial)
    return phone


def _process(adb: Adb, phone: Phone) -> str:
    serial = phone.serial
    pid = adb.shell(f"kill -0 $(cat {FOLDER}/pid) 2>/dev/null && cat {FOLDER}/pid || true").strip()
    if not pid:
        raise not_running("it does not run", adb, FOLDER, f"run `odtc device setup {serial}`")
    if server.running(adb) not in (None, server.started(phone)):
        raise _broken("another computer, or another user, has set the phone up since", serial)
    return f"process {pid}"


def _forward(adb: Adb, phone: Phone) -> str:
    lines = adb.run("forward", "--list").splitlines()
    found = [line for line in lines if f" tcp:{phone.port} " in line]
    if not found:
        raise _broken(f"port {phone.port} of this host leads nowhere", phone.serial)
    return found[0]


def _reverse(adb: Adb, phone: Phone) -> str:
    if tracker_name(phone) not in adb.run("reverse", "--list"):
        raise _broken("the phone has no way to the tracker", phone.serial)
    return f"{tracker_name(phone)} leads to port {phone.tracker} of this host"


def _answer(phone: Phone) -> str:
    said = greeting.status((LOOPBACK, phone.port), _SECONDS, phone.serial)
    if said is None:
        raise _broken("the server closes connections", phone.serial)
    greeting.check_versions(said, phone.serial)
    return "in use" if said.get("busy") else "free"


def _registered(phone: Phone) -> str:
    try:
        with tracker_at((LOOPBACK, phone.tracker), _SECONDS, phone.url) as tracker:
            found = {it.key: it for it in tracker.devices()}
    except DeviceError as error:
        raise _broken(error.what, phone.serial) from error
    if phone.key not in found:
        raise _broken("the server is not registered at the tracker", phone.serial)
    return f"{found[phone.key].free} free, {found[phone.key].waiting} waiting"


def _broken(what: str, serial: str) -> DeviceError:
    return DeviceError(what, where=serial, hint=f"run `odtc device setup {serial}`")
