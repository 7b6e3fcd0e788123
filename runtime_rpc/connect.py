"""From what a user calls a device to a session on it, with a limit to every wait."""

import importlib
import re
import socket
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from odtc.core.disk.sendable import hide_host
from odtc.core.errors import DeviceError, DeviceLostError, UsageError
from odtc.core.options.arguments import takes
from odtc.core.options.kinds import TEXT, instance, optional
from odtc.runtime_rpc.adb.state import LOOPBACK, Phone
from odtc.runtime_rpc.guards.failures import FAILURES
from odtc.runtime_rpc.guards.limits import DEFAULT, Limits
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.session import Session

# What speaks to devices is TVM's, which this machine's CPU needs none of.
if TYPE_CHECKING:
    from tvm import rpc

    from odtc.runtime_rpc.tracker.trackers import Address, Offer, Tracker

_LAST_PORT = (1 << 16) - 1
_URL = re.compile(r"rpc://(?P<host>[^/:\s]+):(?P<port>\d{1,5})/(?P<key>[^/\s]+)")
_ADB = re.compile(r"adb://(?P<serial>[^/\s]+)")


_URL_KIND = TEXT.with_hint("give 'rpc://HOST:PORT/KEY' or 'adb://SERIAL'")
_LIMITS = instance(
    Limits, "Limits", "give, for example, odtc.runtime_rpc.guards.limits.Limits(connect=5.0)"
)


@dataclass(frozen=True)
class Place:
    """A device key at a tracker."""

    tracker: "Address"
    key: str


@takes("odtc.connect", url=optional(_URL_KIND), limits=optional(_LIMITS))
def connect(url: str | None = None, limits: Limits | None = None) -> Session:
    """Opens a session on this machine or on a device.

    Args:
        url: `rpc://HOST:PORT/KEY` for a device key at a tracker; `adb://SERIAL` for a phone, which
            is set up if necessary; None for this machine.
        limits: time limits of the session; `DEFAULT` if None.

    Raises:
        UsageError: the URL has another form.
        DeviceError: there is no tracker or no device of that key, or the device does not answer; or
            another device uses the key of the phone.
        DeviceBusyError: the device is in use.
    """
    if url is None:
        return LocalSession()
    # Where it is missing that is said before any device is asked.
    importlib.import_module("tvm")
    adb = _ADB.fullmatch(url)
    if adb:
        from odtc.runtime_rpc.adb.setup import set_up

        phone = set_up(unquote(adb["serial"]))
        return _open(url, parse_place(phone.url), limits or DEFAULT, phone)
    return _open(url, parse_place(url), limits or DEFAULT)


def reconnect(url: str | None, limits: Limits | None = None) -> Session:
    """A session on what this process had one on: `connect`, but for a phone that was stopped since.

    Raises:
        DeviceError: as of `connect`; or the phone was stopped, which is not set up again then.
    """
    if reason := why_not_again(url):
        raise reason
    return connect(url, limits)


def why_not_again(url: str | None) -> DeviceError | None:
    """Why a device that had a session is not to get another one; None where it may."""
    from odtc.runtime_rpc.adb.stopped import was_stopped

    adb = _ADB.fullmatch(url or "")
    if adb is None or not was_stopped(unquote(adb["serial"])):
        return None
    return DeviceError(
        "the phone was stopped, by `odtc device stop`",
        where=url,
        hint="run the command again to set the phone up again; `odtc train --checkpoint FILE "
        "--resume` goes on from the checkpoint",
    )


def why_absent(url: str) -> str:
    """Why a device is not there now; '' where it is, in use or not. Nothing is set up for it."""
    try:
        if adb := _ADB.fullmatch(url):
            from odtc.runtime_rpc.adb.client import Adb

            Adb(unquote(adb["serial"])).check()
        else:
            from odtc.runtime_rpc.tracker.trackers import tracker_at

            place = parse_place(url)
            with tracker_at(place.tracker, DEFAULT.connect, url) as tracker:
                tracker.check_known(place.key)
    except DeviceError as error:
        return error.what
    return ""


def check_url(url: str) -> None:
    """Checks the form of a device's URL, of one that is not connected to yet.

    Raises:
        UsageError: it has another form.
    """
    if not _ADB.fullmatch(url):
        parse_place(url)


def parse_place(url: str) -> Place:
    """Reads `rpc://HOST:PORT/KEY`.

    Raises:
        UsageError: the URL has another form.
    """
    match = _URL.fullmatch(url)
    if match is None or int(match["port"]) > _LAST_PORT:
        raise UsageError(
            f"{url!r} is not a device",
            hint="write rpc://HOST:PORT/KEY, such as rpc://127.0.0.1:9190/pixel, or adb://SERIAL; "
            "leave it out for this machine, whose GPU is a target: --target host-opencl",
        )
    hide_host(match["host"])
    return Place((match["host"], int(match["port"])), match["key"])


def _open(url: str, place: Place, limits: Limits, phone: Phone | None = None) -> Session:
    """A session with any device of a key, or with a phone alone."""
    from odtc.runtime_rpc.guards.watchdog import Watchdog, ends_to
    from odtc.runtime_rpc.sessions.remote import RemoteSession
    from odtc.runtime_rpc.tracker import greeting
    from odtc.runtime_rpc.tracker.trackers import Offer, tracker_at

    with tracker_at(place.tracker, limits.connect, url) as tracker:
        if phone:
            _check_alone(tracker, phone)
        offer = tracker.request(place.key, limits.request)
    address = _numeric(offer.address, url)
    found = greeting.status(address, limits.connect, url)
    if found is not None:
        greeting.check_versions(found, url)
    others = ends_to(address)
    remote = _handshake(Offer(address, offer.match), limits, url)
    ends = ends_to(address) - others
    questions = None if found is None else greeting.greet(address, limits.connect)
    watchdog = Watchdog(address, offer.match, limits, questions, ends)
    # Before TVM tells the device of each object of the session that is dropped with it, and waits
    # for the answers of a device that may be frozen: no thread of Python runs meanwhile.
    weakref.finalize(remote, watchdog.close)
    serves_programs = greeting.serves_programs(found)
    return RemoteSession(url, remote, watchdog=watchdog, serves_programs=serves_programs)


def _check_alone(tracker: "Tracker", phone: Phone) -> None:
    """Checks that no other device has the key of a phone: the tracker gives any of a key.

    Raises:
        DeviceError: others have it.
    """
    found = {at for it in tracker.devices() if it.key == phone.key for at in it.addresses}
    if others := found - {(LOOPBACK, phone.port)}:
        raise DeviceError(
            f"{len(others) + 1} devices have the key {phone.key!r}: the tracker may give another "
            "one than this phone",
            where=f"adb://{phone.serial}",
            hint=f"give it a key of its own, `odtc device setup {phone.serial} --key NAME`, or "
            f"take any of them: {phone.url}",
        )


def _numeric(address: "Address", url: str) -> "Address":
    try:
        return socket.gethostbyname(address[0]), address[1]
    except (OSError, UnicodeError) as error:
        raise DeviceError(
            f"the tracker gave the device's address as {address[0]!r}: {error}",
            where=url,
            hint="start the device's server with a --custom-addr that this machine can reach",
        ) from error


def _handshake(offer: "Offer", limits: Limits, url: str) -> "rpc.RPCSession":
    """TVM's session, in a thread: it would wait without end for a device that freezes just now."""
    from tvm import rpc

    from odtc.runtime_rpc.guards.watchdog import shut_down
    from odtc.runtime_rpc.tracker.greeting import why_ended

    found: list[rpc.RPCSession | Exception] = []

    def shake() -> None:
        try:
            found.append(rpc.connect(*offer.address, offer.match, limits.session))
        except FAILURES as error:
            found.append(error)

    thread = threading.Thread(target=shake, daemon=True)
    thread.start()
    thread.join(limits.connect)
    if thread.is_alive():
        shut_down(offer.address)
        thread.join(limits.connect)
    session = found[0] if found else TimeoutError(f"no answer within {limits.connect:g} s")
    if isinstance(session, Exception):
        why = why_ended(offer.address, offer.match, limits.connect)
        raise DeviceLostError(
            f"the device refused the session: {why or str(session).strip().splitlines()[-1]}",
            where=url,
            hint="try again; `odtc device doctor` says what is wrong",
        ) from session
    return session
