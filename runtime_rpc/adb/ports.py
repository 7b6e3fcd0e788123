"""Ports of this host and sockets of a phone that lead to each other, through adb."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from odtc.core.errors import DeviceError
from odtc.runtime_rpc.adb.client import Adb
from odtc.runtime_rpc.adb.server import server_name, tracker_name
from odtc.runtime_rpc.adb.state import Phone


def forward(adb: Adb, phone: Phone) -> int:
    """Leads a port of this host to a phone's server, the former port if it is free; returns it.

    Raises:
        DeviceError: adb cannot do so.
    """
    there = f"localabstract:{server_name(phone)}"
    if phone.port:
        with suppress(DeviceError):
            adb.run("forward", f"tcp:{phone.port}", there)
            return phone.port
    return int(adb.run("forward", "tcp:0", there))


def reverse(adb: Adb, phone: Phone) -> None:
    """Leads a socket of the phone to the tracker here.

    Raises:
        DeviceError: adb cannot do so.
    """
    adb.run("reverse", f"localabstract:{tracker_name(phone)}", f"tcp:{phone.tracker}")


def remove(adb: Adb, phone: Phone) -> None:
    """Removes both, as far as they are there."""
    remove_reverse(adb, phone)
    with suppress(DeviceError):
        adb.run("forward", "--remove", f"tcp:{phone.port}")


def remove_reverse(adb: Adb, phone: Phone) -> None:
    """Removes the phone's way to the tracker, if it is there."""
    with suppress(DeviceError):
        adb.run("reverse", "--remove", f"localabstract:{tracker_name(phone)}")


@contextmanager
def port_to(adb: Adb, socket: str) -> Iterator[int]:
    """A port of this host that leads to a socket of the phone for the time of the block.

    Args:
        adb: of the phone.
        socket: its name, of an abstract one.

    Raises:
        DeviceError: adb cannot do so.
    """
    port = int(adb.run("forward", "tcp:0", f"localabstract:{socket}"))
    try:
        yield port
    finally:
        with suppress(DeviceError):
            adb.run("forward", "--remove", f"tcp:{port}")
