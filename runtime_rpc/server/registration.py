"""The server's place at a tracker: it comes back after a tracker that goes, for as long as it runs.

TVM's own server gives up when a tracker stays away for a minute, and stops to listen when a session
crashes. The messages are TVM's, so that any tracker of its version will do.
"""

import json
import random
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tvm.rpc.base import RPC_TRACKER_MAGIC, TrackerCode

from odtc.runtime_rpc.server import wire
from odtc.runtime_rpc.server.log import say

_AGAIN_SECONDS = 1.0
_ASK_SECONDS = 2.0
# A key that the tracker gave to a client who does not come is replaced after this time.
_UNUSED_SECONDS = 6.0
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
    """

    def __init__(self, tracker: str, key: str, at: tuple[str, int]) -> None:
        self.match: str | None = None
        self.socket: socket.socket | None = None
        self._tracker, self._key, self._at = tracker, key, at
        self._replies: deque[Callable[[Any], None]] = deque()
        self._received = wire.Received()
        self._greeted = False
        self._tried = self._asked = self._heard = self._seen = 0.0

    def offer(self) -> None:
        """Lets the tracker give the device away, under a new key."""
        # It tells clients apart, and protects nothing.
        self.match = f"{self._key}:{random.random()}"  # noqa: S311
        self._seen = time.monotonic()
        if self._greeted:
            put = [TrackerCode.PUT, self._key, (self._at[1], self.match), self._at[0]]
            self._send(put, lambda _: None)

    def withdraw(self) -> None:
        """Notes that a client has come."""
        self.match = None

    def tick(self) -> None:
        """What is to be done every now and then: connect, ask, give up."""
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

    def read(self) -> None:
        """Takes what the tracker sends."""
        assert self.socket
        try:
            data = self.socket.recv(4096)
            if not data:
                raise ConnectionResetError("it has gone")
            self._received.add(data)
            self._heard = time.monotonic()
            self._take()
        except (OSError, ValueError, LookupError) as error:
            self._lose(str(error))

    def _connect(self) -> None:
        try:
            self.socket = wire.connect(self._tracker, _AGAIN_SECONDS)
        except OSError:
            return
        self._received, self._greeted = wire.Received(), False
        self._heard = time.monotonic()
        self._replies.clear()
        try:
            self.socket.sendall(wire.number(RPC_TRACKER_MAGIC))
        except OSError as error:
            self._lose(str(error))

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
            self._introduce()
        while (text := self._received.text()) is not None:
            self._replies.popleft()(json.loads(text))

    def _send(self, message: list[Any], reply: Callable[[Any], None]) -> None:
        if not self._replies:
            # It had nothing to say until now, such as for all of a session.
            self._heard = time.monotonic()
        self._replies.append(reply)
        try:
            if self.socket:
                self.socket.sendall(wire.frame(message))
        except OSError as error:
            self._lose(str(error))

    def _note_pending(self, keys: list[str]) -> None:
        now = time.monotonic()
        if self.match in keys:
            self._seen = now
        elif self.match and now - self._seen > _UNUSED_SECONDS:
            self.offer()

    def _lose(self, why: str) -> None:
        say(f"the tracker at {self._tracker} is lost: {why}")
        if self.socket:
            with suppress(OSError):
                self.socket.close()
        self.socket, self._greeted = None, False
        self._replies.clear()
