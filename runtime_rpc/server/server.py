"""The server's one loop: it accepts, answers, looks after its session, and stays at its tracker.

All is done by one thread, so that sessions can be forked at any time; nothing in it may wait, and
peers have turns, one after the other. What a session does, or how it ends, does not end the loop,
and nor does what a peer sends: `bounds` says what it may.
"""

import os
import signal
import socket
import time
import traceback
from pathlib import Path
from typing import Any

from odtc.runtime_rpc.server.child import Child, SessionLimits
from odtc.runtime_rpc.server.log import RateLimitedLog, say
from odtc.runtime_rpc.server.net import bounds
from odtc.runtime_rpc.server.net.accepting import Accepting
from odtc.runtime_rpc.server.net.files import READ, Files
from odtc.runtime_rpc.server.net.peer_table import PeerTable
from odtc.runtime_rpc.server.net.peers import Peer, SessionRequest
from odtc.runtime_rpc.server.net.registration import Registration
from odtc.runtime_rpc.server.session import serve

_TICK_SECONDS = 0.25


class Server:
    """A device's server.

    Args:
        listener: where clients connect.
        registration: its place at a tracker.
        key: of the device.
        about: the device's description of itself.
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
        limits: SessionLimits,
    ) -> None:
        self._listener, self._registration, self._key = listener, registration, key
        self._about, self._folders, self._limits = about, folders, limits
        self._files = Files()
        self._peer_table = PeerTable(bounds.most_peers(), self._has_session)
        self._accepting = Accepting(listener, self._files)
        self._limited_log = RateLimitedLog(bounds.LINES_A_MINUTE)
        self._looked = 0.0
        self._child: Child | None = None
        # What the last session ended of, for a client whom the end of its connection came before.
        self._ended: dict[str, str] = {}
        self._sessions = 0
        self._stopping = False
        registration.closes = self._files.forget

    def run(self, until_closed: int | None = None) -> None:
        """Serves until it is asked to stop.

        Args:
            until_closed: a file; its end ends the server, too.
        """
        wake = _wake_on_signals()
        self._files.want(wake, READ)
        if until_closed is not None:
            try:
                self._files.want(until_closed, READ)
            except PermissionError:
                # A file on a disk is always at its end.
                return
        self._registration.offer()
        try:
            while not self._stopping:
                self._registration.tick()
                ready = self._wait()
                if until_closed in ready and not os.read(until_closed or 0, 1024):
                    break
                if wake in ready and signal.SIGTERM in os.read(wake, 1024):
                    break
                self._look_after_child()
                self._serve_ready(ready)
        finally:
            if self._child:
                self._child.kill()

    def _wait(self) -> dict[int, int]:
        """Waits, and returns the files that are ready; peers with unread input always are."""
        if self._registration.socket:
            self._files.want(self._registration.socket, self._registration.wants)
        more = [
            peer.socket.fileno() for peer in self._peer_table if peer.has_more and peer.wants & READ
        ]
        ready = self._files.wait(0 if more else _TICK_SECONDS)
        return dict.fromkeys(more, 0) | ready

    def _serve_ready(self, ready: dict[int, int]) -> None:
        tracker = self._registration.socket
        if tracker and tracker.fileno() in ready:
            self._registration.take_turn(ready[tracker.fileno()])
        peers = [peer for number in ready if (peer := self._peer_table.get(number))]
        end = time.monotonic() + bounds.TURNS_SECONDS
        for peer in sorted(peers, key=lambda one: one.had_turn):
            if time.monotonic() > end:
                break
            self._take_turn(peer, ready[peer.socket.fileno()])
        self._send_late_away()
        # After the peers: the number of a closed file may be reused by a new one.
        if self._accepting.is_due(ready):
            self._accept()

    def _send_late_away(self) -> None:
        now = time.monotonic()
        if now - self._looked < _TICK_SECONDS:
            return
        self._looked = now
        for peer in self._peer_table:
            if why := peer.why_late():
                self._drop(peer, why)

    def _accept(self) -> None:
        for connection, owner in self._accepting.take(self._make_room):
            peer = Peer(connection, owner, self._answer, bounds.IDLE_FACTOR * self._limits.idle)
            full = self._peer_table.one_too_many(owner)
            if full:
                why, goes = full
                if goes is None:
                    self._limited_log.say(f"a connection was refused: {why}")
                    peer.close(why)
                    continue
                self._drop(goes, why)
            self._peer_table.add(peer)
            self._files.want(connection, peer.wants)

    def _make_room(self) -> bool:
        """Closes the connection of the last peer to free its file; whether there was one."""
        goes = self._peer_table.last()
        if goes:
            self._drop(goes, "no file is left for one more connection")
        return goes is not None

    def _take_turn(self, peer: Peer, events: int) -> None:
        try:
            try:
                if peer.take_turn(events):
                    self._peer_table.was_useful(peer)
                if peer.call:
                    self._begin(peer, peer.call)
                    return
            except ValueError as error:
                self._limited_log.say(f"a connection was refused: {str(error)[:200]}")
                peer.send_away(str(error)[:200])
            self._files.want(peer.socket, peer.wants)
        except OSError as error:
            self._drop(peer, str(error))
        except Exception as error:
            # A fault of the server's own that a peer has found is that peer's alone.
            self._limited_log.say(traceback.format_exc())
            self._drop(peer, f"{type(error).__name__} in the server")

    def _drop(self, peer: Peer, why: str) -> None:
        if not peer.is_leaving:
            self._limited_log.say(f"a connection ended: {why}")
        if self._peer_table.get(peer.socket.fileno()) is peer:
            self._forget(peer)
        peer.close(why)

    def _forget(self, peer: Peer) -> None:
        self._files.forget(peer.socket)
        self._peer_table.remove(peer)

    def _begin(self, peer: Peer, call: SessionRequest) -> None:
        """Begins a session, if the client has the right key and no other session runs."""
        if self._child or not self._registration.knows(call.key):
            self._limited_log.say("a client with another key was refused")
            peer.refuse_key()
            self._files.want(peer.socket, peer.wants)
            return
        peer.accept(self._key)
        self._registration.withdraw(call.key)
        self._forget(peer)
        self._sessions += 1
        limits = SessionLimits(call.seconds, self._limits.idle)
        try:
            self._child = Child(peer.socket, call.key, limits, self._folders, self._serve)
        except OSError as error:
            say(f"no session can begin: {error}")
            peer.socket.close()
            self._registration.offer()

    def _serve(self, connection: socket.socket, folder: Path) -> None:
        """Runs in the session's process: nothing of the server may stay open there."""
        self._files.close()
        for one in (
            self._listener,
            self._registration.socket,
            *(p.socket for p in self._peer_table),
        ):
            if one:
                one.close()
        serve(connection, folder, self._about)

    def _has_session(self, peer: Peer) -> bool:
        """Whether a peer is of the client of the session that runs, which alone knows its key."""
        return self._child is not None and peer.session == self._child.key

    def _look_after_child(self) -> None:
        if self._child and self._child.ended():
            self._ended = {self._child.key: self._child.why}
            self._child = None
            self._registration.offer()

    def _answer(self, peer: Peer, question: dict[str, Any]) -> dict[str, Any]:
        match question.get("ask"):
            case "beat":
                peer.session = str(question.get("session"))
                return self._beaten(peer.session)
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
        """Handles a sign of life from a session's client and returns the answer."""
        if self._child is None or self._child.key != session:
            return {"alive": False, "why": self._ended.get(session, "")}
        self._child.beat()
        return {"alive": True, "why": self._child.why}


def _wake_on_signals() -> int:
    """Returns a file that is readable when a child ends, or on SIGTERM."""
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read
