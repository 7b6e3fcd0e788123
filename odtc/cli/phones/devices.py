"""`odtc devices`: phones, devices at trackers, and what this machine has."""

import argparse
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from odtc.cli.console import aligned, emit, emit_json, readable_bytes, say
from odtc.cli.options import add_json_option
from odtc.cli.switches import Switch
from odtc.core.errors import DeviceError, ExitCode

if TYPE_CHECKING:
    from odtc.runtime_rpc.adb.describe import ListedPhone
    from odtc.runtime_rpc.tracker.trackers import Registered

_DEFAULT_TRACKER = "127.0.0.1:9190"
# Within which a tracker, and a device's server, must answer.
_SECONDS = 3.0


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "devices",
        help="list devices",
        description="List phones connected to adb and devices registered at trackers, with their "
        "properties.",
    )
    parser.add_argument(
        "--tracker",
        action="append",
        metavar="HOST:PORT",
        help=f"tracker to ask (default: {_DEFAULT_TRACKER}, if it answers)",
    )
    parser.add_argument("--local", action=Switch, help="also list this machine's devices")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints what there is; nothing is no error."""
    found = [*_phones(), *_at_trackers(args.tracker)]
    if args.local:
        found += _local()
    if args.json:
        emit_json({"devices": found})
    elif found:
        emit(*aligned([_HEAD, *map(_row, found)]))
    else:
        say("no devices; `odtc devices --local` lists this machine's")
    return ExitCode.OK


def _phones() -> list[dict[str, Any]]:
    from odtc.runtime_rpc.adb.describe import find_phones

    try:
        phones = find_phones()
    except DeviceError as error:
        say(f"note: phones are not listed: {error.what}; {error.hint}")
        return []
    return [
        {
            "kind": "adb",
            "name": phone.serial,
            "url": f"adb://{quote(phone.serial, safe=':[]')}",
            "state": _use(phone) if phone.state == "device" else phone.state,
            "key": phone.key,
            "tracker_url": phone.url,
            **phone.facts,
        }
        for phone in phones
    ]


def _use(phone: "ListedPhone") -> str:
    if phone.other and not phone.busy:
        return _other(f"adb://{phone.serial}", phone.other, phone.serial)
    return {None: "not set up", True: "busy", False: "free"}[phone.busy]


def _other(url: str, what: str, serial: str | None) -> str:
    """The state of a server that begins no session, as it is of another version; a note says why.

    Args:
        url: of the device.
        what: is other.
        serial: of the phone that it is; None of what is none that was set up from here.
    """
    say(f"note: {url}: the server is a different version or build: {what}")
    return f"other version: run odtc device {f'setup {serial}' if serial else 'build'}"


def _at_trackers(trackers: list[str] | None) -> list[dict[str, Any]]:
    from odtc.runtime_rpc.adb import state
    from odtc.runtime_rpc.connect import parse_place
    from odtc.runtime_rpc.tracker.trackers import tracker_at

    own = {f"127.0.0.1:{phone.tracker}" for phone in state.phones()}
    serials = {phone.url: phone.serial for phone in state.phones()}
    found = []
    for text in trackers or sorted(own | {_DEFAULT_TRACKER}):
        address = parse_place(f"rpc://{text}/any").tracker
        try:
            with tracker_at(address, _SECONDS, text) as tracker:
                registered = tracker.devices()
        except DeviceError:
            if trackers:
                raise
            continue
        for device in registered:
            url = f"rpc://{text}/{device.key}"
            found.append(
                {
                    "kind": "tracker",
                    "name": device.key,
                    "url": url,
                    "state": _state_of(device, url, serials.get(url)),
                    "key": device.key,
                    "free": device.free,
                    "waiting": device.waiting,
                }
            )
    return found


def _state_of(device: "Registered", url: str, serial: str | None) -> str:
    """How many devices of a key are free, and how many of these begin no session."""
    from odtc.runtime_rpc.tracker.looked_at import look_at

    looked = look_at(device.addresses, _SECONDS, url)
    other = [each.other for each in looked if each.other]
    silent = [each.silent for each in looked if each.silent]
    if len(other) == len(looked) and other:
        return _other(url, other[0], serial)
    if silent:
        say(f"note: {url}: {silent[0]}")
    parts = {
        "free": f"{device.free} of {len(looked)}",
        "of another version": str(len(other)) if other else "",
        "without an answer": str(len(silent)) if silent else "",
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count)


def _local() -> list[dict[str, Any]]:
    from odtc.backends.targets import CPU
    from odtc.core.errors import OdtcError
    from odtc.runtime_rpc.sessions.local import LocalSession
    from odtc.runtime_rpc.sessions.session import DEVICES

    found = []
    for kind in DEVICES:
        try:
            session = LocalSession().on(kind)
        except OdtcError as error:
            say(f"note: no {kind} device: {error.what}")
            continue
        facts = {"machine": session.info()["machine"]}
        if kind != CPU:
            facts["gpu"] = session.gpu().name
        found.append(
            {"kind": "local", "name": DEVICES[kind], "url": None, "state": "free", **facts}
        )
    return found


_HEAD = ("device", "state", "model", "Android", "SoC", "cores", "GPU", "memory", "battery", "heat")


def _row(device: dict[str, Any]) -> tuple[str, ...]:
    name = device["url"] or device["name"]
    if device.get("emulated"):
        name += " (emulated)"
    memory = device.get("available_bytes")
    heat = device.get("hottest_celsius", device.get("battery_celsius"))
    return (
        name,
        device["state"],
        device.get("model", device.get("machine", "-")),
        device.get("android", "-"),
        device.get("soc", "-"),
        device.get("cores", "-"),
        device.get("gpu", "-"),
        f"{readable_bytes(memory)} of {readable_bytes(device['memory_bytes'])}" if memory else "-",
        f"{device['battery_percent']} %" if "battery_percent" in device else "-",
        f"{heat:.0f} °C" if heat is not None else "-",
    )
