"""Peers of the server: connections until they ask for a session, and those that only ask.

Nothing here blocks: a peer has its turn when data has come from it, takes one message in a turn,
and is dropped at a limit of `bounds`.
"""

import math
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tvm.rpc.base import RPC_MAGIC

from odtc.runtime_rpc.server.net import bounds, wire
from odtc.runtime_rpc.server.net.files import READ, WRITE
from odtc.runtime_rpc.server.net.outgoing import Outgoing

_READ_BYTES = 4096


@dataclass(frozen=True)
class SessionRequest:
    """A client that wants a session.

    Attributes:
        key: what it shows, without `client:`.
        seconds: how long its session may last; 0 is without end.
    """

    key: str
    seconds: float


class Peer:
    """A connection.

    Args:
        connection: accepted.
        owner: of the connection; see `accepting.owner`.
        answer: gives the answer to a question of this peer.
        idle: seconds from one question to the next.

    Attributes:
        socket: the connection.
        owner: as given.
        call: its request for a session; its socket is for that from then on.
        had_turn: when, by the monotonic clock.
        has_more: it has sent more than was taken in its last turn.
        session: key of the session that it gave a sign of life of; '' for none.
    """

    def __init__(
        self,
        connection: socket.socket,
        owner: str,
        answer: Callable[["Peer", dict[str, Any]], dict[str, Any]],
        idle: float,
    ) -> None:
        self.socket, self.owner = connection, owner
        self.call: SessionRequest | None = None
        self.has_more = False
        self.session = ""
        self._answer, self._idle = answer, idle
        self._magic: int | None = None
        self._received = wire.Received(bounds.QUESTION_BYTES)
        self._useful = time.monotonic()
        self.had_turn = self._useful - bounds.NEWCOMER_SECONDS
        self._left: float | None = None
        self._after = 0
        connection.setblocking(False)
        self._outgoing = Outgoing(connection)

    @property
    def wants(self) -> int:
        """Events to wait for: nothing is read from a peer that does not take its answers."""
        full = len(self._outgoing) > bounds.WAITING_BYTES
        return (0 if full else READ) | (WRITE if self._outgoing else 0)

    @property
    def is_greeted(self) -> bool:
        """Whether its greeting has come."""
        return self._magic == wire.GREETING

    @property
    def is_leaving(self) -> bool:
        """Whether it was refused, and is to leave."""
        return self._left is not None

    def why_late(self) -> str:
        """Returns which of its time limits has passed; '' for none."""
        now = time.monotonic()
        if self._left is not None:
            return "it was refused" if now - self._left > bounds.LEAVING_SECONDS else ""
        if self._outgoing.waited > bounds.WAITING_SECONDS:
            return f"its answers were not read for {bounds.WAITING_SECONDS:g} s"
        if not self.is_greeted and now - self._useful > bounds.GREETING_SECONDS:
            return f"no greeting came within {bounds.GREETING_SECONDS:g} s"
        if self.is_greeted and now - self._useful > self._idle:
            return f"no whole question came for {self._idle:g} s"
        return ""

    def take_turn(self, events: int) -> bool:
        """Reads up to one message, and sends as much as the peer takes.

        Returns:
            Whether a whole message has come.

        Raises:
            OSError: it has gone.
            ValueError: it speaks another protocol, or sends too much.
        """
        self.had_turn = time.monotonic()
        if events & WRITE:
            self._outgoing.flush()
        if self.is_leaving:
            self._see_off()
            return False
        if len(self._outgoing) > bounds.WAITING_BYTES:
            return False
        if events & READ and not self.has_more:
            self._read()
        return self._take()

    def send_away(self, why: str) -> None:
        """Sends it the reason and lets it read that: a connection closed at once may lose it.

        Raises:
            OSError: it has gone.
        """
        self._leave(wire.refusal(why))

    def close(self, why: str) -> None:
        """Closes the connection at once; the peer reads the reason if it can."""
        if not self.is_leaving and not self._outgoing:
            with suppress(OSError):
                self.socket.send(wire.refusal(why))
        self.socket.close()

    def accept(self, key: str) -> None:
        """Lets a session begin; the socket is blocking from here on.

        Args:
            key: of the device.

        Raises:
            OSError: it has gone.
        """
        name = f"server:{key}".encode()
        # The first bytes of a connection always fit in its buffer.
        self.socket.sendall(wire.number(RPC_MAGIC) + wire.number(len(name)) + name)
        self.socket.settimeout(None)

    def refuse_key(self) -> None:
        """Refuses a client of TVM's that shows another key.

        Raises:
            OSError: it has gone.
        """
        self.call = None
        self._leave(wire.number(RPC_MAGIC + 2))

    def _leave(self, last: bytes) -> None:
        self._left, self.has_more = time.monotonic(), False
        self._outgoing.put(last)
        self._see_off()

    def _see_off(self) -> None:
        """Drains what still comes: else the end of the connection might overtake the reason."""
        if self._outgoing:
            return
        if not self._after:
            self.socket.shutdown(socket.SHUT_WR)
        with suppress(BlockingIOError):
            data = self.socket.recv(bounds.LEAVING_BYTES // 16)
            self._after += len(data)
            if not data or self._after > bounds.LEAVING_BYTES:
                raise ConnectionResetError("it was refused")

    def _read(self) -> None:
        # TVM's client sends nothing after its header before it has an answer.
        with suppress(BlockingIOError):
            data = self.socket.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError("it has gone")
            self._received.add(data)

    def _take(self) -> bool:
        if self._magic is None:
            self._magic = self._received.number()
            if self.is_greeted:
                self._useful = time.monotonic()
                size = bounds.SEND_BUFFER_BYTES
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        if self._magic is None:
            return False
        if self._magic not in (RPC_MAGIC, wire.GREETING):
            raise ValueError("another protocol")
        text = self._received.text()
        self.has_more = text is not None and self.is_greeted
        if text is None:
            return False
        if self.is_greeted:
            self._take_question(text)
        else:
            self.call = _call_of(text)
        return True

    def _take_question(self, text: bytes) -> None:
        question = wire.parsed(text)
        if not isinstance(question, dict):
            raise ValueError("a question that is no object")
        self._useful = time.monotonic()
        self._outgoing.put(wire.frame(self._answer(self, question)))


def _call_of(text: bytes) -> SessionRequest:
    """The session that a header of TVM's asks for.

    Raises:
        ValueError: it asks for none, or for a time that is none.
    """
    name, *options = text.decode().split()
    if not name.startswith("client:"):
        raise ValueError("no client")
    times = [float(option[9:]) for option in options if option.startswith("-timeout=")]
    seconds = times[0] if times else 0.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"a session of {seconds:g} s")
    return SessionRequest(name.removeprefix("client:"), seconds)
