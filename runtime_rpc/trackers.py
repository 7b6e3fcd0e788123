"""A tracker from its client's side, with a limit to every wait."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm.rpc import base
from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode

from odtc.core.errors import DeviceBusyError, DeviceError

Address = tuple[str, int]


@dataclass(frozen=True)
class Offer:
    """A device that a tracker gave away.

    Attributes:
        address: of its server.
        match: what the server wants to be shown.
    """

    address: Address
    match: str


@dataclass(frozen=True)
class Registered:
    """The devices of one key at a tracker.

    Attributes:
        key: of the devices.
        addresses: of their servers.
        free: how many of them wait for a client.
        waiting: how many clients wait for one.
    """

    key: str
    addresses: tuple[Address, ...]
    free: int
    waiting: int


class Tracker:
    """A connection to a tracker.

    Args:
        connection: to it.
        where: it is, for messages.
    """

    def __init__(self, connection: socket.socket, where: str) -> None:
        self._connection, self._where = connection, where

    def devices(self) -> list[Registered]:
        """The devices that are registered, by key.

        Raises:
            OSError: the tracker does not answer.
        """
        base.sendjson(self._connection, [TrackerCode.SUMMARY])
        _, summary = base.recvjson(self._connection)
        addresses: dict[str, list[Address]] = {}
        for server in summary["server_info"]:
            host, port = server["addr"]
            addresses.setdefault(server["key"].removeprefix("server:"), []).append((host, port))
        queues = summary["queue_info"]
        return [
            Registered(key, tuple(sorted(found)), *_queue(queues.get(key, {})))
            for key, found in sorted(addresses.items())
        ]

    def request(self, key: str, seconds: float) -> Offer:
        """A free device of a key.

        Raises:
            DeviceError: no device has this key.
            DeviceBusyError: none becomes free within the time.
            OSError: the tracker does not answer.
        """
        known = {device.key: device for device in self.devices()}
        if key not in known:
            listed = ", ".join(known) or "none"
            raise DeviceError(
                f"no device {key!r} is registered at the tracker; those that are: {listed}",
                where=self._where,
                hint="start the device's server, such as with `odtc device setup SERIAL`",
            )
        base.sendjson(self._connection, [TrackerCode.REQUEST, key, "", 1])
        self._connection.settimeout(seconds)
        try:
            _, (host, port, match) = base.recvjson(self._connection)
        except TimeoutError as error:
            raise DeviceBusyError(
                f"the device {key!r} is in use, and did not become free within {seconds:g} s",
                where=self._where,
                hint="wait for its user, or end its session with `odtc device stop`",
            ) from error
        return Offer((host, port), match)


def _queue(queue: dict[str, Any]) -> tuple[int, int]:
    return queue.get("free", 0), queue.get("pending", 0)


@contextmanager
def tracker_at(address: Address, seconds: float, where: str) -> Iterator[Tracker]:
    """A connection to a tracker, for the time of the block.

    Args:
        address: of the tracker.
        seconds: until it must answer.
        where: what messages call it.

    Raises:
        DeviceError: it does not answer, or is no tracker.
    """
    try:
        with socket.create_connection(address, seconds) as connection:
            magic = struct.pack("<i", RPC_TRACKER_MAGIC)
            connection.sendall(magic)
            if connection.recv(len(magic), socket.MSG_WAITALL) != magic:
                raise OSError("what answers there is not a tracker")
            yield Tracker(connection, where)
    except (OSError, UnicodeError, OverflowError) as error:
        raise DeviceError(
            f"no RPC tracker answers: {error}",
            where=where,
            hint="start the tracker, or check host and port",
        ) from error
