"""Brings a phone to where it can be used: odtc-device runs there, and is registered here.

    client ─tcp, loopback─ adb forward ═USB═ abstract socket ─ server
    tracker ─tcp, loopback─ adb reverse ═USB═ abstract socket ─ server

On the phone nothing listens on the network: every app there could reach that, loopback too.
Abstract sockets identify the peer's user, and the server serves adb's daemon alone. A phone that is
ready is left as it is.
"""

import time
from contextlib import suppress
from dataclasses import replace

from odtc.core.errors import DeviceError, UsageError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.adb import local_tracker, server, state
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.adb.server import log_lines, server_name, tracker_name
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
        DeviceLostError: the phone does not answer.
        BuildError: this installation has no server for phones, and cannot compile one.
    """
    if key is not None:
        _check_key(key)
    adb = Adb(serial)
    adb.check()
    with state.alone(serial):
        program = android_device()
        here = local_tracker.begin(_port(serial, tracker))
        wanted = _wanted(serial, key, here.port)
        forwarded = replace(wanted, port=_forward(adb, wanted))
        if forwarded == state.find(serial) and server.is_current(forwarded, program):
            here.wait()
            _wait_until_registered(forwarded, adb)
            return forwarded
        server.push(adb, program, progress)
        server.stop(adb, forwarded)
        progress("starting the server on the phone")
        state.save(forwarded)
        server.start(adb, forwarded, server.program_hash(program))
        here.wait()
        _wait_until_registered(forwarded, adb)
    return forwarded


def stop(serial: str) -> None:
    """Stops a phone's server and removes its forwarded ports; its files stay.

    Raises:
        DeviceError: the phone was not set up from here.
    """
    phone = state.find(serial)
    if phone is None:
        known = ", ".join(it.serial for it in state.phones()) or "none"
        raise DeviceError(
            f"the phone was not set up from here; those that were: {known}",
            where=serial,
            hint="give one of these serials",
        )
    with state.alone(serial):
        adb = Adb(serial)
        # If the phone is gone, there is nothing to stop.
        with suppress(DeviceError):
            adb.check()
            server.stop(adb, phone)
        with suppress(DeviceError):
            adb.run("reverse", "--remove", f"localabstract:{tracker_name(phone)}")
        with suppress(DeviceError):
            adb.run("forward", "--remove", f"tcp:{phone.port}")
        state.forget(serial)
    local_tracker.stop_if_unused(phone.tracker)


def _check_key(key: str) -> None:
    """Checks a key: TVM's client ends one at a space, and a URL at a slash."""
    fits = len(key.encode(errors="replace")) <= _MOST_KEY and key.isprintable()
    if not key or not fits or " " in key or "/" in key:
        raise UsageError(
            f"{key!r} cannot be a key",
            where="--key",
            hint=f"give 1 to {_MOST_KEY} bytes without spaces and slashes, such as --key pixel",
        )


def _port(serial: str, tracker: int | None) -> int:
    """The tracker's port; any is the one of before, if there is one."""
    before = state.find(serial)
    if before and not tracker:
        return before.tracker
    return local_tracker.DEFAULT_PORT if tracker is None else tracker


def _wanted(serial: str, key: str | None, tracker: int) -> Phone:
    """The phone to set up; its port is the former one, or 0."""
    before = state.find(serial)
    key = key or (before.key if before else state.slug(serial))
    return Phone(serial, key, before.port if before else 0, tracker)


def _forward(adb: Adb, phone: Phone) -> int:
    """Forwards ports through adb, each to its socket; returns the server's port on this host."""
    adb.run("reverse", f"localabstract:{tracker_name(phone)}", f"tcp:{phone.tracker}")
    there = f"localabstract:{server_name(phone)}"
    if phone.port:
        with suppress(DeviceError):
            adb.run("forward", f"tcp:{phone.port}", there)
            return phone.port
    return int(adb.run("forward", "tcp:0", there))


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
    raise DeviceError(
        f"the phone's server does not reach the tracker; its log ends with\n{log_lines(adb)}",
        where=phone.serial,
        hint="`odtc device doctor SERIAL` says what is wrong",
    )
