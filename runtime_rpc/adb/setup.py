"""Installs odtc's server on a phone and starts it; a phone that is ready is left as it is.

    client ─tcp, loopback─ adb forward ═USB═ abstract socket ─ server
    tracker ─tcp, loopback─ adb reverse ═USB═ abstract socket ─ server

On the phone nothing listens on the network: every app there could reach that, loopback too.
Abstract sockets identify the peer's user, and the server serves adb's daemon alone.
"""

import time
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import DeviceError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.adb import local_tracker, state
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.adb.kit import FOLDER, START, Kit, build_kit
from odtc.runtime_rpc.adb.state import LOOPBACK, Phone
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.server_files import server_hash, write_server
from odtc.runtime_rpc.tracker import greeting
from odtc.runtime_rpc.tracker.trackers import tracker_at

START_SECONDS = 90.0
_ASK_SECONDS = 5.0
_POLL_SECONDS = 0.2
_UNPACK_SECONDS = 300.0
_LOG_LINES = 15
_ABIS = ("arm64-v8a",)
# Of the kit, unpacked beside the file that it comes in; and of sessions.
_ROOM_KIB = 600 * 1024


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
        DeviceError: the phone is not there, has another ABI, or its server does not start.
        DeviceLostError: the phone does not answer.
        BuildError: what is to be pushed cannot be built.
    """
    adb = Adb(serial)
    adb.check()
    with state.alone(serial):
        wanted = _wanted(serial, key, tracker)
        forwarded = replace(wanted, port=_forward(adb, wanted))
        if forwarded == state.find(serial) and _is_current(forwarded):
            _wait_until_registered(forwarded, adb)
            return forwarded
        _check_abi(adb)
        _push(adb, build_kit(progress), progress)
        _stop_server(forwarded, adb)
        progress("starting the server on the phone")
        state.save(forwarded)
        _start(adb, forwarded)
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
            _stop_server(phone, adb)
        with suppress(DeviceError):
            adb.run("reverse", "--remove", f"localabstract:{tracker_name(phone)}")
        with suppress(DeviceError):
            adb.run("forward", "--remove", f"tcp:{phone.port}")
        state.forget(serial)
    local_tracker.stop_if_unused(phone.tracker)


def server_name(phone: Phone) -> str:
    """The abstract socket of a phone's server."""
    return f"odtc-{phone.key}"


def tracker_name(phone: Phone) -> str:
    """The abstract socket on a phone that is forwarded to the tracker."""
    return f"odtc-{phone.key}-tracker"


def ask(phone: Phone, message: dict[str, Any]) -> dict[str, Any] | None:
    """Asks a phone's server and returns its answer; None if there is no server."""
    with (
        suppress(OSError, ValueError),
        greeting.greet((LOOPBACK, phone.port), _ASK_SECONDS) as connection,
    ):
        return wire.ask(connection, message)
    return None


def log_lines(adb: Adb) -> str:
    """The end of the server's log."""
    with suppress(DeviceError):
        return adb.shell(f"tail -n {_LOG_LINES} {FOLDER}/log").strip()
    return ""


def _wanted(serial: str, key: str | None, tracker: int | None) -> Phone:
    """Returns the phone to set up, its tracker running; its port is the former one, or 0."""
    before = state.find(serial)
    key = key or (before.key if before else state.slug(serial))
    # Any port is the one of before, if there is one.
    port = local_tracker.DEFAULT_PORT if tracker is None else tracker
    if before and not tracker:
        port = before.tracker
    return Phone(serial, key, before.port if before else 0, local_tracker.ensure(port))


def _forward(adb: Adb, phone: Phone) -> int:
    """Forwards ports through adb, each to its socket; returns the server's port on this host."""
    adb.run("reverse", f"localabstract:{tracker_name(phone)}", f"tcp:{phone.tracker}")
    there = f"localabstract:{server_name(phone)}"
    if phone.port:
        with suppress(DeviceError):
            adb.run("forward", f"tcp:{phone.port}", there)
            return phone.port
    return int(adb.run("forward", "tcp:0", there))


def _is_current(phone: Phone) -> bool:
    """Whether the phone's server runs and is of this version."""
    found = ask(phone, {"ask": "status"})
    if found is None or found.get("files") != server_hash():
        return False
    with suppress(DeviceError):
        greeting.check_versions(found, phone.serial)
        return True
    return False


def _check_abi(adb: Adb) -> None:
    abi = adb.shell("getprop ro.product.cpu.abi").strip()
    if abi not in _ABIS:
        raise DeviceError(
            f"the phone's ABI is {abi!r}; odtc has a server for {', '.join(_ABIS)}",
            where=adb.serial,
            hint="use a phone whose Android is a 64-bit one",
        )


def _push(adb: Adb, kit: Kit, progress: Progress) -> None:
    """Pushes files that the phone does not have yet."""
    adb.shell(f"mkdir -p {FOLDER} && chmod 700 {FOLDER}")
    marker = f"cat {FOLDER}/kit/version 2>/dev/null || true"
    if adb.shell(marker).strip() != kit.version:
        _check_room(adb)
        progress("pushing Python and TVM to the phone")
        try:
            adb.push(kit.path, f"{FOLDER}/kit.tar")
            adb.shell(
                f"cd {FOLDER} && rm -rf kit && mkdir kit && tar -xf kit.tar -C kit && "
                f"echo {kit.version} > kit/version",
                seconds=_UNPACK_SECONDS,
            )
        finally:
            with suppress(DeviceError):
                adb.shell(f"rm -f {FOLDER}/kit.tar")
    with temporary_folder() as files:
        write_server(files / "server")
        (files / "start").write_text(START)
        adb.shell(f"rm -rf {FOLDER}/server")
        adb.push(files / "server", f"{FOLDER}/server")
        adb.push(files / "start", f"{FOLDER}/start")


def _check_room(adb: Adb) -> None:
    """Checks that the kit fits, before it is pushed."""
    free = int(adb.shell(f"df -k {FOLDER}").splitlines()[-1].split()[-3])
    if free < _ROOM_KIB:
        raise DeviceError(
            f"the phone has {free} KiB left; odtc's server needs {_ROOM_KIB} KiB",
            where=f"{adb.serial}, {FOLDER}",
            hint="free space on the phone",
        )


def _stop_server(phone: Phone, adb: Adb) -> None:
    """Stops the server of a phone, whichever way it listens."""
    ask(phone, {"ask": "stop"})
    adb.shell(
        f"cd {FOLDER} 2>/dev/null || exit 0; test -f pid || exit 0; "
        "for i in 1 2 3 4 5 6 7 8 9; do kill -0 $(cat pid) 2>/dev/null || break; sleep 0.2; done; "
        "kill -9 $(cat pid) 2>/dev/null; rm -f pid"
    )


def _start(adb: Adb, phone: Phone) -> None:
    options = (
        f"--listen abstract:{server_name(phone)} --tracker abstract:{tracker_name(phone)} "
        f"--key {phone.key} --port {phone.port} --odtc {version('odtc')} --files {server_hash()}"
    )
    # When this shell ends, processes that are still in its session may get SIGHUP.
    adb.shell(
        f"cd {FOLDER} && rm -f pid && trap '' HUP && "
        f"{{ setsid sh ./start {options} </dev/null >log 2>&1 & }}"
    )
    deadline = time.monotonic() + START_SECONDS
    while ask(phone, {"ask": "status"}) is None:
        alive = adb.shell(f"kill -0 $(cat {FOLDER}/pid) 2>/dev/null && echo yes || true").strip()
        if time.monotonic() > deadline or (not alive and _had_time(deadline)):
            raise DeviceError(
                f"the server did not start on the phone; its log ends with\n{log_lines(adb)}",
                where=phone.serial,
                hint="`odtc device doctor SERIAL` says what is wrong",
            )
        time.sleep(_POLL_SECONDS)
    _wait_until_registered(phone, adb)


def _had_time(deadline: float) -> bool:
    """Whether a process that is being started must exist by now."""
    return deadline - time.monotonic() < START_SECONDS - _ASK_SECONDS


def _wait_until_registered(phone: Phone, adb: Adb) -> None:
    """Waits until the server has found its tracker, soon after ports were forwarded to it."""
    deadline = time.monotonic() + START_SECONDS
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
