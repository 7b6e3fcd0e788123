"""The server's one loop: it accepts, answers, looks after its session, and stays at its tracker.

All is done by one thread, so that sessions can be forked at any time; nothing in it may wait long.
What a session does, or how it ends, does not end the loop.
"""

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from odtc.runtime_rpc.server.child import Child, Limits
from odtc.runtime_rpc.server.log import say
from odtc.runtime_rpc.server.peers import Call, Peer
from odtc.runtime_rpc.server.registration import Registration
from odtc.runtime_rpc.server.session import serve

_TICK_SECONDS = 0.25
# Users of a phone by number: root, and the shell that adb's daemon runs as.
_TRUSTED = {0, 2000}
_CREDENTIALS = 12


class Server:
    """A device's server.

    Args:
        listener: where clients connect.
        registration: its place at a tracker.
        key: of the device.
        about: what the device says of itself.
        folders: where sessions have their folders; empty.
        limits: of sessions; what a client asks for in seconds is added.
    """

    def __init__(
        self,
        listener: socket.socket,
        registration: Registration,
        key: str,
        about: dict[str, Any],
        folders: Path,
        limits: Limits,
    ) -> None:
        self._listener, self._registration, self._key = listener, registration, key
        self._about, self._folders, self._limits = about, folders, limits
        self._peers: list[Peer] = []
        self._child: Child | None = None
        # What the last session ended of, for a client whom the end of its connection came before.
        self._ended: dict[str, str] = {}
        self._sessions = 0
        self._stopping = False

    def run(self, until_closed: int | None = None) -> None:
        """Serves until it is told to stop.

        Args:
            until_closed: a file; its end ends the server, too.
        """
        wake = _wake_on_signals()
        self._registration.offer()
        try:
            while not self._stopping:
                self._registration.tick()
                ready = self._wait(wake, until_closed)
                if until_closed in ready and not os.read(until_closed or 0, 1024):
                    break
                if wake in ready and signal.SIGTERM in os.read(wake, 1024):
                    break
                self._look_after_child()
                self._serve_ready(ready)
        finally:
            if self._child:
                self._child.kill()

    def _wait(self, *others: int | None) -> set[int | None]:
        files = [one.fileno() for one in self._sockets()]
        known = [one for one in others if one is not None]
        ready, _, _ = select.select(files + known, [], [], _TICK_SECONDS)
        return set(ready)

    def _serve_ready(self, ready: set[int | None]) -> None:
        tracker = self._registration.socket
        if tracker and tracker.fileno() in ready:
            self._registration.read()
        for peer in list(self._peers):
            if peer.is_late:
                self._drop(peer)
            elif peer.socket.fileno() in ready:
                self._read(peer)
        if self._listener.fileno() in ready:
            self._accept()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            if is_trusted(connection):
                self._peers.append(Peer(connection, self._answer))
            else:
                connection.close()

    def _read(self, peer: Peer) -> None:
        try:
            peer.read()
            if peer.call:
                self._begin(peer, peer.call)
        except (OSError, ValueError) as error:
            say(f"a connection ended: {error}")
            self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        self._peers.remove(peer)
        peer.socket.close()

    def _begin(self, peer: Peer, call: Call) -> None:
        """Begins a session, if the client has the right key and no other session runs."""
        if self._child or call.key != self._registration.match:
            peer.refuse()
            raise ValueError("a client with another key")
        peer.accept(self._key)
        self._registration.withdraw()
        self._peers.remove(peer)
        self._sessions += 1
        limits = Limits(call.seconds, self._limits.idle)
        try:
            self._child = Child(peer.socket, call.key, limits, self._folders, self._serve)
        except OSError as error:
            say(f"no session can begin: {error}")
            peer.socket.close()
            self._registration.offer()

    def _serve(self, connection: socket.socket, folder: Path) -> None:
        """In the session's process: nothing of the server may stay open there."""
        for one in self._sockets():
            one.close()
        serve(connection, folder, self._about)

    def _sockets(self) -> list[socket.socket]:
        peers = [peer.socket for peer in self._peers]
        return [self._listener, *filter(None, [self._registration.socket]), *peers]

    def _look_after_child(self) -> None:
        if self._child and self._child.ended():
            self._ended = {self._child.key: self._child.why}
            self._child = None
            self._registration.offer()

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question.get("ask"):
            case "beat":
                return self._beaten(str(question.get("session")))
            case "stop":
                self._stopping = True
                return {"stopping": True}
            case _:
                return self._about | {
                    "busy": self._child is not None,
                    "sessions": self._sessions,
                    "server_pid": os.getpid(),
                    "time": time.time(),
                }

    def _beaten(self, session: str) -> dict[str, Any]:
        """What the client of a session is told for a sign of its life."""
        if self._child is None or self._child.key != session:
            return {"alive": False, "why": self._ended.get(session, "")}
        self._child.beat()
        return {"alive": True, "why": self._child.why}


def is_trusted(connection: socket.socket) -> bool:
    """Whether this user, root or adb's daemon is at the other end; TCP cannot tell.

    On a phone, every app can reach what listens on loopback.
    """
    if connection.family != socket.AF_UNIX:
        return True
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS)
    user = int.from_bytes(credentials[4:8], sys.byteorder)
    return user in _TRUSTED | {os.getuid()}


def _wake_on_signals() -> int:
    """A file that has something to read when a child ends, or the server is told to."""
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read
