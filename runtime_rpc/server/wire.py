"""What host and server say to each other beside TVM's protocol, on the same address.

A connection begins with a number. TVM's own opens a session; ours opens a conversation: framed JSON
objects, one answer to each question, for as long as both like. It is served while a session runs.

    {"ask": "status"}                        what the device is, and whether it is in use
    {"ask": "beat", "session": KEY}          a sign of life of the session's client; whether the
                                             session is alive, and why it is not
    {"ask": "stop"}                          ends the server
"""

import json
import socket
import struct
from typing import Any

GREETING = 0x6F647463
# A frame of ours, and a header of TVM's, are never longer.
MOST_BYTES = 1 << 16
LOOPBACK = "127.0.0.1"

_NUMBER = struct.Struct("<i")
_ABSTRACT = "abstract"
_TCP = "tcp"


def number(value: int) -> bytes:
    """A number as TVM's protocols have it."""
    return _NUMBER.pack(value)


def frame(message: object) -> bytes:
    """A message with its length in front."""
    text = json.dumps(message).encode()
    return number(len(text)) + text


class Received:
    """Bytes that came so far, of which whole parts are taken from the front."""

    def __init__(self) -> None:
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Puts more bytes behind."""
        self._data += data

    def number(self) -> int | None:
        """Takes a number, or None if it is not all there."""
        taken = self._take(_NUMBER.size)
        return None if taken is None else _NUMBER.unpack(taken)[0]

    def text(self) -> bytes | None:
        """Takes bytes with their length in front, or None if they are not all there.

        Raises:
            ValueError: the length is negative, or above `MOST_BYTES`.
        """
        if len(self._data) < _NUMBER.size:
            return None
        (length,) = _NUMBER.unpack_from(self._data)
        if not 0 <= length <= MOST_BYTES:
            raise ValueError(f"a message of {length} bytes")
        taken = self._take(_NUMBER.size + length)
        return None if taken is None else taken[_NUMBER.size :]

    def _take(self, count: int) -> bytes | None:
        if len(self._data) < count:
            return None
        taken = bytes(self._data[:count])
        del self._data[:count]
        return taken


def listen(address: str) -> socket.socket:
    """Listens at `tcp:PORT`, on loopback only, or at `abstract:NAME`, of Linux's own names.

    Raises:
        OSError: it is in use.
        ValueError: the text has another form.
    """
    kind, name = _parts(address)
    if kind == _TCP:
        return socket.create_server((LOOPBACK, int(name)))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{name}")
    listener.listen()
    return listener


def connect(address: str, seconds: float) -> socket.socket:
    """Connects to an address such as `listen` takes.

    Raises:
        OSError: nobody listens there, or does not take the connection within the time.
        ValueError: the text has another form.
    """
    kind, name = _parts(address)
    if kind == _TCP:
        return socket.create_connection((LOOPBACK, int(name)), seconds)
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(seconds)
    connection.connect(f"\0{name}")
    return connection


def _parts(address: str) -> tuple[str, str]:
    kind, _, name = address.partition(":")
    if kind not in (_TCP, _ABSTRACT) or not name:
        raise ValueError(f"{address!r} is not tcp:PORT or abstract:NAME")
    return kind, name


def ask(connection: socket.socket, message: dict[str, Any]) -> dict[str, Any]:
    """Asks over a connection that began with `GREETING`, and waits for the answer.

    Raises:
        OSError: the other side is gone, or its answer does not come within the socket's time.
        ValueError: the answer is no JSON object.
    """
    connection.sendall(frame(message))
    received = Received()
    while (text := received.text()) is None:
        data = connection.recv(4096)
        if not data:
            raise ConnectionResetError("the connection was closed")
        received.add(data)
    answer = json.loads(text)
    if not isinstance(answer, dict):
        raise ValueError(f"{answer!r} is no object")
    return answer
