"""The server's registration at a tracker, renewed whenever the tracker returns.

TVM's own server gives up when a tracker is away for a minute, and stops listening when a session
crashes. The messages are TVM's, so that any tracker of its version will do. Nothing here blocks on
the tracker, and nothing that it sends can do worse than lose the connection.
"""

import random
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode

from odtc.runtime_rpc.server.log import RateLimitedLog
from odtc.runtime_rpc.server.net import bounds, wire
from odtc.runtime_rpc.server.net.files import READ, WRITE
from odtc.runtime_rpc.server.net.outgoing import Outgoing

_AGAIN_SECONDS = 1.0
# A key that the tracker gave to a client that does not come, such as one that was killed, is
# replaced after this time. With the time between two questions it is less than the next client
# waits (`Limits.request`). A client that comes later still gets the device, unless others have it.
_ASK_SECONDS, _UNUSED_SECONDS = 1.0, 3.0
_SILENT_SECONDS = 10.0


class Registration:
    """A device at a tracker.

    Args:
        tracker: its address, as `wire.connect` takes it.
        key: the device key.
        at: host and port at which clients reach the server.

    Attributes:
        match: what the next client has to show; None while a session runs.
        socket: the connection; None while there is none.
        closes: called with the connection before it is closed.
    """

    def __init__(self, tracker: str, key: str, at: tuple[str, int]) -> None:
        self.match: str | None = None
        # The key of a client that was given the device and has not come yet: it still may.
        self._former: str | None = None
        self.socket: socket.socket | None = None
        self.closes: Callable[[socket.socket], None] = lambda _: None
        self._outgoing: Outgoing | None = None
        self._limited_log = RateLimitedLog(bounds.LINES_A_MINUTE)
        self._tracker, self._key, self._at = tracker, key, at
        self._replies: deque[Callable[[Any], None]] = deque()
        self._received = wire.Received()
        self._greeted = False
        self._tried = self._asked = self._heard = self._seen = 0.0

    def offer(self) -> None:
        """Offers the device at the tracker, under a new key and no other."""
        self._former = None
        # It distinguishes clients, and protects nothing.
        self.match = f"{self._key}:{random.random()}"  # noqa: S311
        self._seen = time.monotonic()
        if self._greeted:
            put = [TrackerCode.PUT, self._key, (self._at[1], self.match), self._at[0]]
            self._send(put, lambda _: None)

    def knows(self, key: str) -> bool:
        """Whether a client with this key was given the device."""
        return key in (self.match, self._former)

    def withdraw(self, key: str) -> None:
        """Notes that a client with this key has come."""
        late = key != self.match
        self.match = self._former = None
        if late:
            # The tracker has another key by now, and takes back what is offered when it is left.
            self._lose("a client has come late")

    def tick(self) -> None:
        """Does the periodic work: connects, asks, gives up."""
        now = time.monotonic()
        if self.socket is None:
            if now - self._tried > _AGAIN_SECONDS:
                self._tried = now
                self._connect()
        elif (self._replies or not self._greeted) and now - self._heard > _SILENT_SECONDS:
            self._lose("it does not answer")
        elif (
            self._greeted and self.match and not self._replies and now - self._asked > _ASK_SECONDS
        ):
            self._asked = now
            self._send([TrackerCode.GET_PENDING_MATCHKEYS], self._note_pending)

    @property
    def wants(self) -> int:
        """Events to wait for on the connection."""
        return READ | (WRITE if self._outgoing else 0)

    def take_turn(self, events: int) -> None:
        """Reads from the tracker, and sends as much as it takes."""
        assert self._outgoing is not None
        try:
            if events & WRITE:
                self._outgoing.flush()
            if events & READ:
                self._read()
        except BlockingIOError:
            return
        except (OSError, ValueError, LookupError) as error:
            self._lose(error)

    def _read(self) -> None:
        assert self.socket
        data = self.socket.recv(4096)
        if not data:
            raise ConnectionResetError("it has gone")
        self._received.add(data)
        self._take()

    def _connect(self) -> None:
        try:
            self.socket = wire.connect(self._tracker)
        except OSError:
            return
        self._received, self._greeted = wire.Received(), False
        self._heard = time.monotonic()
        self._replies.clear()
        self._outgoing = Outgoing(self.socket)
        self._put(wire.number(RPC_TRACKER_MAGIC))

    def _introduce(self) -> None:
        """Once the tracker has answered: one that is busy would read more with the first number."""
        self._greeted = True
        info = {"key": f"server:{self._key}", "addr": self._at}
        self._send([TrackerCode.UPDATE_INFO, info], lambda _: None)
        if self.match:
            self.offer()

    def _take(self) -> None:
        if not self._greeted:
            magic = self._received.number()
            if magic is None:
                return
            if magic != RPC_TRACKER_MAGIC:
                raise ValueError("it is no tracker")
            self._heard = time.monotonic()
            self._introduce()
        while (text := self._received.text()) is not None:
            # There may be no end of parts of a message.
            self._heard = time.monotonic()
            answer = wire.parsed(text)
            self._replies.popleft()(answer)

    def _send(self, message: list[Any], reply: Callable[[Any], None]) -> None:
        if not self._replies:
            # It had nothing to send until now, such as during a whole session.
            self._heard = time.monotonic()
        self._replies.append(reply)
        self._put(wire.frame(message))

    def _put(self, data: bytes) -> None:
        try:
            if self._outgoing is not None:
                self._outgoing.put(data)
        except OSError as error:
            self._lose(error)

    def _note_pending(self, keys: Any) -> None:
        if not isinstance(keys, list):
            raise ValueError("keys that are no list")
        now = time.monotonic()
        if self.match in keys:
            self._seen = now
        elif self.match and now - self._seen > _UNUSED_SECONDS:
            self._limited_log.say("a client that was given this device does not come; others may")
            late = self.match
            self.offer()
            self._former = late

    def _lose(self, why: Exception | str) -> None:
        # While there is no tracker, this would be in the log every second.
        if not isinstance(why, ConnectionRefusedError):
            self._limited_log.say(f"the tracker at {self._tracker} is lost: {str(why)[:200]}")
        if self.socket:
            self.closes(self.socket)
            with suppress(OSError):
                self.socket.close()
        self.socket, self._outgoing, self._greeted = None, None, False
        self._replies.clear()
