"""Brings a phone to where it can be used: odtc-device runs there, and is registered here.

    client ─tcp, loopback─ adb forward ═USB═ abstract socket ─ server
    tracker ─tcp, loopback─ adb reverse ═USB═ abstract socket ─ server

On the phone nothing listens on the network: every app there could reach that, loopback too.
Abstract sockets identify the peer's user, and the server serves adb's daemon alone. A phone that is
ready is left as it is.
"""

import time
from contextlib import ExitStack
from dataclasses import replace

from odtc.core.errors import DeviceBusyError, DeviceError, UsageError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.adb import local_tracker, ports, server, state
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.adb.ended import not_running
from odtc.runtime_rpc.adb.server import FOLDER, tracker_name
from odtc.runtime_rpc.adb.state import LOOPBACK, Phone
from odtc.runtime_rpc.native.android.device import android_device
from odtc.runtime_rpc.tracker.trackers import tracker_at

_ASK_SECONDS = 5.0
_POLL_SECONDS = 0.05
# Of a key: it is a part of names of sockets, which have at most 107 bytes.
_MOST_KEY = 64


def set_up(
    serial: str,
    key: str | None = None,
    tracker: int | None = None,
    progress: Progress = silent,
) -> Phone:
    """Ensures that a phone's server runs and is registered at a tracker of this host.

    Args:
        serial: of the phone, as adb has it.
        key: its key at the tracker; the former one, or one made of its serial, if None.
        tracker: its port on loopback; it is started if nothing listens there.
        progress: called with what is being done.

    Raises:
        UsageError: no URL can have that key.
        DeviceError: the phone is not there, has another ABI, or its server does not start.
        DeviceBusyError: a session runs there, of another computer or another version.
        DeviceLostError: the phone does not answer.
        BuildError: this installation has no server for phones, and cannot compile one.
    """
    if key is not None:
        _check_key(key)
    adb = Adb(serial)
    adb.check()
    with state.alone(serial), ExitStack() as undo:
        program, before = android_device(), state.find(serial)
        here = local_tracker.begin(_port(before, tracker))
        undo.callback(here.end)
        wanted = _wanted(serial, before, key, here.port)
        if wanted != before:
            _check_no_session(adb, before)
        phone = replace(wanted, port=ports.forward(adb, wanted))
        if phone != before:
            undo.callback(ports.remove, adb, phone)
        ports.reverse(adb, phone)
        if phone != before or not server.is_current(adb, phone, program):
            _check_no_session(adb, before)
            server.push(adb, program, progress)
            server.stop(adb, phone)
            progress("starting the server on the phone")
            state.save(phone)
            undo.pop_all()
            server.start(adb, phone, server.identity(program, phone))
        here.wait()
        _wait_until_registered(phone, adb)
        if before:
            _leave(adb, before, phone)
    return phone


def _check_no_session(adb: Adb, before: Phone | None) -> None:
    """Checks that no session runs on the phone, which another server there would end.

    Args:
        adb: of the phone.
        before: the phone as it was set up from here; None if it was not.

    Raises:
        DeviceBusyError: one runs.
    """
    found = server.running(adb)
    if found is None:
        return
    with ports.port_to(adb, found.socket) as port:
        said = server.ask_at(port, {"ask": "status"})
    if not said or not said.get("busy"):
        return
    if before and found == server.started(before):
        whose, stop = "", f"`odtc device stop {adb.serial}`"
    else:
        whose = ", which another computer or another user has set up"
        stop = "`odtc device stop` there"
    raise DeviceBusyError(
        f"a session runs on the phone{whose}: it would end",
        where=adb.serial,
        hint=f"wait for its end, or end it by {stop}",
    )


def _leave(adb: Adb, before: Phone, phone: Phone) -> None:
    """Leaves what a phone had under another key, or at another tracker."""
    if tracker_name(before) != tracker_name(phone):
        ports.remove_reverse(adb, before)
    if before.tracker != phone.tracker:
        local_tracker.stop_if_unused(before.tracker)


def stop(serial: str) -> str:
    """Stops a phone's server and removes its forwarded ports; its files stay.

    Returns:
        Why no server was stopped, where the phone is away or another computer's by now; else ''.

    Raises:
        DeviceError: the phone was not set up from here.
    """
    phone = state.find(serial)
    if phone is None:
        known = ", ".join(it.serial for it in state.phones())
        raise DeviceError(
            f"the phone was not set up from here; phones that were: {known or 'none'}",
            where=serial,
            hint="give one of these serials" if known else "there is nothing to stop",
        )
    with state.alone(serial):
        adb, why = Adb(serial), ""
        try:
            adb.check()
            if server.running(adb) in (None, server.started(phone)):
                server.stop(adb, phone)
            else:
                why = "another computer, or another user, has set the phone up since"
        except DeviceError as error:
            why = error.what
        ports.remove(adb, phone)
        state.forget(serial)
    local_tracker.stop_if_unused(phone.tracker)
    return why


def _check_key(key: str) -> None:
    """Checks a key: TVM's client ends one at a space, and a URL at a slash."""
    fits = len(key.encode(errors="replace")) <= _MOST_KEY and key.isprintable()
    if not key or not fits or " " in key or "/" in key:
        raise UsageError(
            f"{key!r} cannot be a key",
            where="--key",
            hint=f"give 1 to {_MOST_KEY} bytes without spaces and slashes, such as --key pixel",
        )


def _port(before: Phone | None, tracker: int | None) -> int:
    """The tracker's port; any is the one of before, if there is one."""
    if before and not tracker:
        return before.tracker
    return local_tracker.DEFAULT_PORT if tracker is None else tracker


def _wanted(serial: str, before: Phone | None, key: str | None, tracker: int) -> Phone:
    """The phone to set up; its port is the former one, or 0."""
    key = key or (before.key if before else state.slug(serial))
    return Phone(serial, key, before.port if before else 0, tracker)


def _wait_until_registered(phone: Phone, adb: Adb) -> None:
    """Waits until the server has found its tracker, soon after ports were forwarded to it."""
    deadline = time.monotonic() + server.START_SECONDS
    while time.monotonic() < deadline:
        with tracker_at((LOOPBACK, phone.tracker), _ASK_SECONDS, phone.url) as tracker:
            at = {
                address
                for it in tracker.devices()
                if it.key == phone.key
                for address in it.addresses
            }
        if (LOOPBACK, phone.port) in at:
            return
        time.sleep(_POLL_SECONDS)
    raise not_running(
        "the phone's server does not reach the tracker",
        *(adb, FOLDER, f"`odtc device doctor {phone.serial}` says what is wrong"),
    )
