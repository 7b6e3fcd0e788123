"""The protocol of host and server beside TVM's, on the same address.

A connection begins with a number. TVM's own opens a session; ours opens a conversation: framed JSON
objects, one answer to each question, for as long as both like. It is served while a session runs.

    {"ask": "status"}                        what the device is, and whether it is in use
    {"ask": "beat", "session": KEY}          a sign of life of the session's client; whether the
                                             session is alive, and why it is not
    {"ask": "stop"}                          ends the server

A peer that is refused gets the reason, if it can still read it: {"refused": WHY}.
"""

import json
import re
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import Any, TypeVar

from odtc.runtime_rpc.server.net import bounds

GREETING = 0x6F647463
# An answer is never longer, nor a tracker's message to a server.
MOST_BYTES = 1 << 16
LOOPBACK = "127.0.0.1"
# The folder beside these modules, where they were brought to a phone, of Android's names.
NAMES = "names"

_NUMBER = struct.Struct("<i")
_ABSTRACT = "abstract"
_TCP = "tcp"
# Closed or not, so that no character is looked at twice.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[{\]}]")
_STEPS = {"[": 1, "{": 1, "]": -1, "}": -1}
_REFUSED = "refused"
T = TypeVar("T")


class RefusedError(ConnectionError):
    """The server has refused its client, with this reason."""


def number(value: int) -> bytes:
    """A number as TVM's protocols have it."""
    return _NUMBER.pack(value)


def frame(message: object) -> bytes:
    """A message with its length in front."""
    text = json.dumps(message).encode()
    return number(len(text)) + text


def refusal(why: str) -> bytes:
    """Returns the last message to a peer that is refused."""
    return frame({_REFUSED: why})


def parsed(text: bytes) -> Any:
    """The value of a message.

    Raises:
        ValueError: it is no JSON in UTF-8, or nests deeper than `bounds.DEPTH`.
    """
    words = text.decode()
    if _depth(words) > bounds.DEPTH:
        raise ValueError(f"a message that nests deeper than {bounds.DEPTH}")
    try:
        return json.loads(words)
    except RecursionError:
        raise ValueError("a message that nests too deep") from None


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= bounds.DEPTH:
        return 0
    brackets = _BRACKET.findall(_STRING.sub("", text))
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


class Received:
    """Bytes that came so far, of which whole parts are taken from the front.

    Args:
        most: bytes of a text.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._data = bytearray()
        self._most = most

    def add(self, data: bytes) -> None:
        """Appends bytes."""
        self._data += data

    def number(self) -> int | None:
        """Takes a number, or None if it is not all there."""
        taken = self._take(_NUMBER.size)
        return None if taken is None else _NUMBER.unpack(taken)[0]

    def text(self) -> bytes | None:
        """Takes bytes with their length in front, or None if they are not all there.

        Raises:
            ValueError: the length is negative, or above the bound.
        """
        if len(self._data) < _NUMBER.size:
            return None
        (length,) = _NUMBER.unpack_from(self._data)
        if not 0 <= length <= self._most:
            raise ValueError(f"a message of {length} bytes, where {self._most} are the most")
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
        listener = socket.create_server((LOOPBACK, int(name)), backlog=bounds.BACKLOG)
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0{name}")
        listener.listen(bounds.BACKLOG)
    listener.setblocking(False)
    return listener


def connect(address: str) -> socket.socket:
    """Begins to connect to an address such as `listen` takes; the socket does not block.

    Raises:
        OSError: nothing listens there, or its backlog is full.
        ValueError: the text has another form.
    """
    kind, name = _parts(address)
    connection = socket.socket(socket.AF_INET if kind == _TCP else socket.AF_UNIX)
    connection.setblocking(False)
    try:
        connection.connect((LOOPBACK, int(name)) if kind == _TCP else f"\0{name}")
    except BlockingIOError:
        # Over TCP it is in progress; the next send shows whether it succeeded.
        if kind == _TCP:
            return connection
        connection.close()
        raise
    except OSError:
        connection.close()
        raise
    return connection


def _parts(address: str) -> tuple[str, str]:
    kind, _, name = address.partition(":")
    if kind not in (_TCP, _ABSTRACT) or not name:
        raise ValueError(f"{address!r} is not tcp:PORT or abstract:NAME")
    return kind, name


def ask(connection: socket.socket, message: dict[str, Any]) -> dict[str, Any]:
    """Asks over a connection that began with `GREETING`, and waits for the answer.

    The answer is whole within the socket's time: one that comes byte by byte gets no more.

    Raises:
        OSError: the other side is gone, or its answer does not come in time.
        RefusedError: the server refuses this client.
        ValueError: the answer is no JSON object, is too long, or nests too deep.
    """
    seconds = connection.gettimeout()
    # Who was sent away can read why, and send no more.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(frame(message))
    try:
        answer = parsed(receive(connection, Received(), seconds))
    finally:
        connection.settimeout(seconds)
    if not isinstance(answer, dict):
        raise ValueError("an answer that is no object")
    if _REFUSED in answer:
        raise RefusedError(f"the server refuses: {str(answer[_REFUSED])[:200]}")
    return answer


def receive(connection: socket.socket, received: Received, seconds: float | None) -> bytes:
    """Waits for one text with its length in front; the socket's time is changed.

    Args:
        connection: to read from.
        received: bytes of it that came before, kept for the next call.
        seconds: until all of it must be there; None is without end.

    Raises:
        OSError: the other side is gone, or the text does not come in time.
        ValueError: its length is negative, or above the bound.
    """
    return _receive(connection, received, Received.text, seconds)


def receive_number(connection: socket.socket, received: Received, seconds: float | None) -> int:
    """Waits for a number, as `receive` does for a text."""
    return _receive(connection, received, Received.number, seconds)


def _receive(
    connection: socket.socket,
    received: Received,
    take: Callable[[Received], T | None],
    seconds: float | None,
) -> T:
    deadline = None if seconds is None else time.monotonic() + seconds
    while (taken := take(received)) is None:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            connection.settimeout(left)
        data = connection.recv(4096)
        if not data:
            raise ConnectionResetError("the connection was closed")
        received.add(data)
    return taken
