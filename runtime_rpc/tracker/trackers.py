"""A client of a tracker, with limits on every wait and on every answer."""

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from odtc.core.errors import DeviceBusyError, DeviceError
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker.told import understood

Address = tuple[str, int]
# Of TVM's `rpc/base.py`, which takes a second to import.
TRACKER_MAGIC = 0x2F271
STOP, REQUEST, SUMMARY = 2, 4, 6
# TVM's tracker has the same limit.
_MOST_BYTES = 1 << 20
_LAST_PORT = (1 << 16) - 1
# Most keys in a message.
_LISTED, _LISTED_LETTERS = 20, 60


@dataclass(frozen=True)
class Offer:
    """A device that a tracker assigned.

    Attributes:
        address: of its server.
        match: the key to present to the server.
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
        connection: to it, after the greeting.
        received: bytes that have come after that.
        where: its address, for messages.
        seconds: within which it must answer.
    """

    def __init__(
        self, connection: socket.socket, received: wire.Received, where: str, seconds: float
    ) -> None:
        self._connection, self._received = connection, received
        self._where, self._seconds = where, seconds

    def devices(self) -> list[Registered]:
        """The devices that are registered, by key.

        What registered itself with no address is no device: no client could reach it.

        Raises:
            OSError: the tracker does not answer.
            DeviceError: its answer has no form that is known.
        """
        with self._understood():
            _, summary = self._ask([SUMMARY], self._seconds)
            servers, queues = list(summary["server_info"]), dict(summary["queue_info"])
        addresses: dict[str, list[Address]] = {}
        for server in servers:
            with suppress(ValueError, LookupError, TypeError):
                key, address = _text(server["key"]), _address(*server["addr"])
                addresses.setdefault(key.removeprefix("server:"), []).append(address)
        with self._understood():
            return [
                Registered(key, tuple(sorted(found)), *_queue(queues.get(key, {})))
                for key, found in sorted(addresses.items())
            ]

    def stop(self, key: str) -> None:
        """Stops the tracker, by the key that it was started with.

        Raises:
            OSError: the tracker does not answer.
            DeviceError: its answer has no form that is known.
        """
        with self._understood():
            self._ask([STOP, key], self._seconds)

    def check_known(self, key: str) -> None:
        """Checks that a device has a key, free or not.

        Raises:
            DeviceError: none has, or the tracker's answer has no form that is known.
            OSError: the tracker does not answer.
        """
        known = [device.key for device in self.devices()]
        if key not in known:
            listed = ", ".join(name[:_LISTED_LETTERS] for name in known[:_LISTED]) or "none"
            raise DeviceError(
                f"no device {key!r} is registered with the tracker; registered: {listed}",
                where=self._where,
                hint="start the device's server, for example with `odtc device setup SERIAL`",
            )

    def request(self, key: str, seconds: float) -> Offer:
        """A free device of a key.

        Raises:
            DeviceError: no device has this key, or the tracker's answer no form that is known.
            DeviceBusyError: none becomes free within the time.
            OSError: the tracker does not answer.
        """
        self.check_known(key)
        try:
            with self._understood():
                _, (host, port, match) = self._ask([REQUEST, key, "", 1], seconds)
                return Offer(_address(host, port), _text(match))
        except TimeoutError as error:
            raise DeviceBusyError(
                f"the device {key!r} is in use, and did not become free within {seconds:g} s",
                where=self._where,
                hint="wait for its user, or end its session with `odtc device stop`",
            ) from error

    def _ask(self, message: list[Any], seconds: float) -> Any:
        self._connection.sendall(wire.frame(message))
        return wire.parsed(wire.receive(self._connection, self._received, seconds))

    def _understood(self) -> AbstractContextManager[None]:
        return understood("the tracker", self._where)


def _queue(queue: dict[str, Any]) -> tuple[int, int]:
    return int(queue.get("free", 0)), int(queue.get("pending", 0))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _address(host: Any, port: Any) -> Address:
    """TVM's server in C++ registers its port as text."""
    number = int(port) if isinstance(port, str) else port
    if type(number) is not int or not 0 < number <= _LAST_PORT:
        raise ValueError("no port")
    return _text(host), number


@contextmanager
def tracker_at(address: Address, seconds: float, where: str) -> Iterator[Tracker]:
    """Connects to a tracker for the duration of the block.

    Args:
        address: of the tracker.
        seconds: within which it must answer.
        where: its name in messages.

    Raises:
        DeviceError: it does not answer, or is no tracker.
    """
    try:
        with socket.create_connection(address, seconds) as connection:
            connection.sendall(wire.number(TRACKER_MAGIC))
            received = wire.Received(_MOST_BYTES)
            if wire.receive_number(connection, received, seconds) != TRACKER_MAGIC:
                raise OSError("what answers there is not a tracker")
            connection.settimeout(seconds)
            yield Tracker(connection, received, where, seconds)
    except (OSError, UnicodeError, OverflowError) as error:
        raise DeviceError(
            f"no RPC tracker answers: {error}",
            where=where,
            hint="start the tracker, or check host and port",
        ) from error
