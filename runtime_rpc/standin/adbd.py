"""A stand-in for adb's daemon on a phone: the protocol that the real `adb` speaks with it.

    python adbd.py LISTENER ROOT

LISTENER is the number of an inherited socket, on the host's loopback; ROOT is the phone's root
folder, where shell commands run. What this process runs in is the phone: its namespaces, for the
network too, are the phone's. It imports nothing of odtc. It ends when its standard input is closed.

A message is a header of six numbers (command, two arguments, length, sum of bytes, check) and data.
A stream is opened with a service's name; each side may send the next part when the other has said
`OKAY` to the last. The services here are shell, sync (push, pull), forwarding and reversing.
"""

import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# Beside it, where this file runs as a program.
sys.path.insert(0, str(Path(__file__).parent))

import adbd_services as services  # pyright: ignore[reportMissingImports]

_HEADER = struct.Struct("<4s5I")
_VERSION = 0x01000000
_MOST_BYTES = 256 * 1024
_PART = 64 * 1024
_WAIT_SECONDS = 30.0


class Stream:
    """A stream of a connection, as its service sees it: it reads, writes and closes.

    Attributes:
        number: at this side.
        peer: its number at the other side; 0 until it is known.
    """

    def __init__(self, connection: "AdbConnection", number: int, peer: int) -> None:
        self.number, self.peer = number, peer
        self._connection = connection
        self._change = threading.Condition()
        self._received = bytearray()
        self._may_write = bool(peer)
        self._closed = False

    def write(self, data: bytes) -> None:
        """Sends data in parts, each after the other side has taken the last one.

        Raises:
            EOFError: the other side has closed.
        """
        for start in range(0, len(data), _PART):
            with self._change:
                self._change.wait_for(lambda: self._may_write or self._closed, _WAIT_SECONDS)
                if self._closed or not self._may_write:
                    raise EOFError
                self._may_write = False
            self._connection.send(b"WRTE", self.number, self.peer, data[start : start + _PART])

    def read(self, count: int | None = None) -> bytes:
        """Reads so many bytes; or those that have come, at least one.

        Raises:
            EOFError: the other side has closed.
        """
        least = 1 if count is None else count
        with self._change:
            self._change.wait_for(lambda: len(self._received) >= least or self._closed)
            if len(self._received) < least:
                raise EOFError
            data = bytes(self._received[:count])
            del self._received[: len(data)]
            return data

    def close(self) -> None:
        """Ends the stream, when the other side has taken what was sent."""
        with self._change:
            self._change.wait_for(lambda: self._may_write or self._closed, _WAIT_SECONDS)
        self._connection.close_stream(self)

    def take(self, data: bytes) -> None:
        """Takes data that the other side sent."""
        with self._change:
            self._received += data
            self._change.notify_all()

    def allow(self, peer: int) -> None:
        """Notes that the other side has taken the last part."""
        with self._change:
            self.peer, self._may_write = peer, True
            self._change.notify_all()

    def end(self) -> None:
        """Notes that the other side has closed."""
        with self._change:
            self._closed = True
            self._change.notify_all()


class AdbConnection:
    """A connection of adb's server.

    Args:
        client: accepted.
        phone: the environment of commands.
    """

    def __init__(self, client: socket.socket, phone: services.PhoneRoot) -> None:
        self.phone = phone
        self.reversed: dict[str, services.Reversed] = {}
        self._client = client
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._last = 0

    def run(self) -> None:
        """Serves until the client disconnects, or the cable is pulled."""
        try:
            while True:
                self._handle(*self._receive())
        except (EOFError, OSError):
            pass
        finally:
            self._client.close()
            for each in self.reversed.values():
                each.stop()
            for stream in list(self._streams.values()):
                stream.end()

    def send(self, command: bytes, first: int, second: int, data: bytes = b"") -> None:
        """Sends one message."""
        check = int.from_bytes(command, "little") ^ 0xFFFFFFFF
        header = _HEADER.pack(command, first, second, len(data), sum(data) & 0xFFFFFFFF, check)
        with self._lock:
            self._client.sendall(header + data)

    def open(self, service: str) -> Stream:
        """Opens a stream to a service of the host, such as a reversed port."""
        stream = self._new(0)
        self.send(b"OPEN", stream.number, 0, service.encode() + b"\0")
        return stream

    def close_stream(self, stream: Stream) -> None:
        """Ends a stream, once."""
        if self._streams.pop(stream.number, None):
            stream.end()
            with suppress(OSError):
                self.send(b"CLSE", stream.number, stream.peer)

    def _new(self, peer: int) -> Stream:
        with self._lock:
            self._last += 1
            stream = self._streams[self._last] = Stream(self, self._last, peer)
        return stream

    def _receive(self) -> tuple[bytes, int, int, bytes]:
        command, first, second, length, _, _ = _HEADER.unpack(self._exactly(_HEADER.size))
        return command, first, second, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = self._client.recv(count, socket.MSG_WAITALL) if count else b""
        if len(data) < count:
            raise EOFError
        return data

    def _handle(self, command: bytes, first: int, second: int, data: bytes) -> None:
        stream = self._streams.get(second)
        match command:
            case b"CNXN":
                self.send(b"CNXN", _VERSION, _MOST_BYTES, self.phone.banner)
            case b"OPEN":
                self._start(data.rstrip(b"\0").decode(), first)
            case b"WRTE" if stream:
                stream.take(data)
                self.send(b"OKAY", second, first)
            case b"OKAY" if stream:
                stream.allow(first)
            case b"CLSE" if stream:
                self._streams.pop(second)
                stream.end()

    def _start(self, name: str, peer: int) -> None:
        service = services.find(name, self)
        if service is None:
            self.send(b"CLSE", 0, peer)
            return
        stream = self._new(peer)
        self.send(b"OKAY", stream.number, peer)
        threading.Thread(target=_run, args=(service, stream), daemon=True).start()


def _run(service: Callable[[Stream], None], stream: Stream) -> None:
    with suppress(EOFError, OSError):
        service(stream)
    stream.close()


def _exit_with_stdin() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


def main(listener: int, root: str) -> None:
    """Accepts connections of adb's server, until it is killed."""
    threading.Thread(target=_exit_with_stdin, daemon=True).start()
    phone = services.PhoneRoot(Path(root))
    accepting = socket.socket(fileno=listener)
    while True:
        client, _ = accepting.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=AdbConnection(client, phone).run, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
