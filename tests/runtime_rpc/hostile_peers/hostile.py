"""Peers that mean a server harm, a thousand of them in a process of its own.

    python -m tests.runtime_rpc.hostile_peers.hostile HOST PORT COUNT SECONDS

Each has one of the ways of `WAYS` to do it, and comes back when it is sent away. A line on stdout
tells when all have connected; JSON at the end how many were connected at once at most, how often
they connected, and how often those of each way were sent away.
"""

import json
import os
import resource
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from odtc.runtime_rpc.server.net import wire

# That of `tvm.rpc.base`, which would take seconds to import.
RPC_MAGIC = 0xFF271
CONNECTED = "connected"
_ROUND_SECONDS = 0.05
# Of each address only as many may come as one peer may have.
_ADDRESSES = 4
GREETED = wire.number(wire.GREETING)
ASKED = wire.frame({"ask": "status"})
_NESTED = b"[" * 1000


def _text(data: bytes) -> bytes:
    return wire.number(len(data)) + data


def _header(text: bytes) -> bytes:
    return wire.number(RPC_MAGIC) + _text(text)


# What each says first, what it says again and again, and whether it reads.
WAYS: dict[str, tuple[bytes, Callable[[], bytes], bool]] = {
    "says nothing": (b"", bytes, True),
    "half a greeting": (GREETED[:2], bytes, True),
    "a greeting and nothing": (GREETED, bytes, True),
    "writes slowly": (GREETED + wire.number(1000), lambda: b"x", True),
    "reads nothing": (GREETED, lambda: ASKED * 100, False),
    "asks without end": (GREETED, lambda: ASKED * 3, True),
    "garbage": (b"", lambda: os.urandom(64), True),
    "garbage behind a greeting": (GREETED, lambda: _text(os.urandom(64)), True),
    "a huge length": (GREETED + wire.number((1 << 31) - 1), lambda: b"x" * 1000, True),
    "a negative length": (GREETED + wire.number(-1), bytes, True),
    "deep lists": (GREETED + _text(_NESTED), bytes, True),
    "deep objects": (GREETED + _text(b'{"a":' * 200), bytes, True),
    "many brackets": (GREETED, lambda: _text(b"[" + b"[]," * 330 + b"[]]"), True),
    "60 KB of brackets": (GREETED + _text(b"[" * 60_000), bytes, True),
    "half of TVM's header": (wire.number(RPC_MAGIC) + wire.number(100), bytes, True),
    "a huge header of TVM's": (wire.number(RPC_MAGIC) + wire.number(1 << 30), bytes, True),
    "another's key": (_header(b"client:here:guess"), bytes, True),
    "a session of no time": (_header(b"client:here:guess -timeout=nan"), bytes, True),
}


class Attacker:
    """A peer with one way to do harm."""

    def __init__(self, number: int, address: tuple[str, int]) -> None:
        self.first, self.again, self.reads = list(WAYS.values())[number % len(WAYS)]
        self.source = (f"127.0.0.{2 + number % _ADDRESSES}", 0)
        self.address = address
        self.socket: socket.socket | None = None
        self.connects = 0

    def act(self) -> None:
        """Does its next bit."""
        try:
            if self.socket is None:
                self._connect()
            elif self.reads and self._is_over():
                self._close()
            else:
                self._send(self.again())
        except OSError:
            self._close()

    def _connect(self) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.bind(self.source)
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            self.socket.connect(self.address)
        self.connects += 1
        self._send(self.first)

    def _send(self, data: bytes) -> None:
        with suppress(BlockingIOError):
            if self.socket and data:
                self.socket.send(data)

    def _is_over(self) -> bool:
        assert self.socket
        with suppress(BlockingIOError):
            return not self.socket.recv(1 << 16)
        return False

    def _close(self) -> None:
        if self.socket:
            self.socket.close()
        self.socket = None


def is_open(connection: socket.socket | None) -> bool:
    """Whether the other side still has it."""
    if connection is None:
        return False
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return not poll.poll(0)


def main(host: str, port: int, count: int, seconds: float) -> None:
    """Does harm for so many seconds."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(count, hard - 64)
    attackers = [Attacker(number, (host, port)) for number in range(count)]
    most = rounds = 0
    closed: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for one in attackers:
            had = one.socket
            one.act()
            if had and not one.socket:
                closed[list(WAYS)[attackers.index(one) % len(WAYS)]] += 1
        if not rounds:
            print(CONNECTED, flush=True)
        if rounds % 20 == 0:
            most = max(most, sum(is_open(one.socket) for one in attackers))
        rounds += 1
        time.sleep(_ROUND_SECONDS)
    told = {"peers": count, "at once": most, "connects": sum(one.connects for one in attackers)}
    print(json.dumps(told | {"closed": closed}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
