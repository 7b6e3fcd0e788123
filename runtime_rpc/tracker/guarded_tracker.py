"""TVM's tracker, with limits on connections and their messages.

TVM's own spins for ever when no file is left for a connection, keeps requests of clients that have
gone, and one device with a number for a name ends the connection of every client that asks for the
devices. The protocol is the same: any client can still register devices of its own.
"""

import asyncio
import errno
import heapq
import logging
import select
import socket
import time
from typing import Any

from tvm.rpc import tracker
from tvm.rpc.base import TrackerCode

from odtc.runtime_rpc.server.net import bounds
from odtc.runtime_rpc.server.net.peer_table import PeerTable
from odtc.runtime_rpc.tracker.tracker_forms import FORMS

# Per connection: keys that wait for a client, and requests that wait for a device.
MOST_WAITING = 64
# In all: names of devices.
MOST_KEYS = 4096
# Bytes, and parts of answers, that wait for a peer that does not read.
MOST_UNREAD, MOST_UNREAD_PARTS = 4 << 20, 64
_NO_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class TrackerConnection(tracker.TCPEventHandler):
    """A connection to the tracker.

    Attributes:
        socket: of the connection, closed or not.
        owner: the address that it comes from.
    """

    def __init__(self, guarded: "GuardedTracker", connection: socket.socket, at: Any) -> None:
        self.socket, self.owner = connection, str(at[0])
        self._requested: list[str] = []
        super().__init__(guarded, connection, at)
        guarded.peer_table.add(self)
        self._late = self._ioloop.call_later(bounds.GREETING_SECONDS, self._check_greeting)

    @property
    def is_registered(self) -> bool:
        """Whether it is a device's."""
        return "key" in self._info

    def on_message(self, message: bytes) -> None:
        """Handles a message; an error in it ends this connection alone."""
        try:
            super().on_message(message)
        except Exception as error:
            tracker.logger.warning("%s: %s", self.name(), str(error)[:200])
            self.close()

    def call_handler(self, args: Any) -> None:
        """Answers well-formed messages.

        Raises:
            ValueError: it has not, or asks for too much.
        """
        if self._sock is None:
            raise ValueError("bytes came after its end")
        code, *words = args
        form = FORMS.get(code)
        if form is None or not form(*words):
            raise ValueError("a message of another form")
        self._tracker.peer_table.was_useful(self)
        match code:
            case TrackerCode.PUT:
                self._put(args)
            case TrackerCode.REQUEST:
                self._request(*words)
            case _:
                super().call_handler(args)

    def write_message(self, message: bytes, binary: bool = True) -> None:
        """Sends an answer; ends the connection when too much of it is not read."""
        super().write_message(message, binary)
        waiting = self._pending_write
        if len(waiting) > MOST_UNREAD_PARTS or sum(map(len, waiting)) > MOST_UNREAD:
            raise ValueError("its answers are not read")

    def _put(self, args: list[Any]) -> None:
        key, (_, match) = args[1], args[2]
        if self._info.get("key") != f"server:{key}" or match in self.pending_matchkeys:
            raise ValueError("a device that is not registered, or waits already")
        self._check_waiting()
        super().call_handler(args)
        # Else the list of devices given away would grow without end.
        self.put_values = [it for it in self.put_values if it[-1] in self.pending_matchkeys]

    def _check_waiting(self) -> None:
        if len(self.pending_matchkeys) + len(self._requested) >= MOST_WAITING:
            raise ValueError(f"{MOST_WAITING} requests and devices wait already")

    def _request(self, key: str, user: str, priority: float) -> None:
        self._check_waiting()

        def give(value: Any) -> bool:
            if not self._sock:
                return False
            try:
                self.ret_value([TrackerCode.SUCCESS, value])
            except (OSError, ValueError):
                return False
            self._requested.remove(key)
            return True

        give.connection = self  # type: ignore[attr-defined]
        self._requested.append(key)
        self._tracker.request(key, user, priority, give)

    def on_close(self) -> None:
        """Drops its requests and its registered devices."""
        self._ioloop.remove_timeout(self._late)
        self._tracker.forget(self, self._requested)
        super().on_close()

    def close(self) -> None:
        """Ends the connection."""
        if self._sock is not None:
            self._tracker.peer_table.remove(self)
        super().close()

    def _check_greeting(self) -> None:
        if self._init_req_nbytes:
            tracker.logger.warning("%s: it gave no greeting", self.name())
            self.close()


class GuardedTracker(tracker.TrackerServerHandler):
    """The tracker.

    Args:
        listener: where it listens.
        stop_key: of the message that ends it.
    """

    def __init__(self, listener: socket.socket, stop_key: str) -> None:
        self.peer_table: PeerTable[TrackerConnection] = PeerTable(
            bounds.most_peers(), lambda one: one.is_registered
        )
        super().__init__(listener, stop_key)

    def put(self, key: str, value: Any) -> None:
        """Registers a device."""
        self._check_room(key)
        super().put(key, value)

    def request(self, key: str, user: str, priority: float, callback: Any) -> None:
        """Assigns a device, now or later."""
        self._check_room(key)
        super().request(key, user, priority, callback)

    def close(self, connection: TrackerConnection) -> None:
        """Withdraws the devices of a connection that has ended."""
        self._connections.discard(connection)
        for value in connection.put_values:
            if known := self._scheduler_map.get(value[-1].rpartition(":")[0]):
                known.remove(value)

    def forget(self, connection: TrackerConnection, keys: list[str]) -> None:
        """Drops requests of a connection that has ended."""
        for key in set(keys):
            waiting = self._scheduler_map[key]._requests
            waiting[:] = [one for one in waiting if one[-1].connection is not connection]
            heapq.heapify(waiting)

    def _check_room(self, key: str) -> None:
        known = self._scheduler_map
        if key in known or len(known) < MOST_KEYS:
            return
        for name, one in list(known.items()):
            if not one._requests and not one._values:
                del known[name]
        if len(known) >= MOST_KEYS:
            raise ValueError(f"{MOST_KEYS} names of devices are the most")

    def _on_event(self, _: Any) -> None:
        for _ in range(bounds.ACCEPTED_AT_ONCE):
            try:
                connection, at = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_FILES and not self._make_room():
                    return
                continue
            if full := self.peer_table.one_too_many(str(at[0])):
                if full[1] is None:
                    connection.close()
                    continue
                full[1].close()
            TrackerConnection(self, connection, at)

    def _make_room(self) -> bool:
        """Ends the least recently useful connection, if another waits for its file."""
        if not _is_waiting(self._sock):
            return False
        if goes := self.peer_table.last():
            goes.close()
            return True
        # Else the listener would be ready all the time.
        self._ioloop.remove_handler(self._sock.fileno())
        self._ioloop.call_later(bounds.NO_FILES_SECONDS, self._listen)
        return False

    def _listen(self) -> None:
        self._ioloop.add_handler(
            self._sock.fileno(), lambda _, events: self._on_event(events), self._ioloop.READ
        )


def _is_waiting(listener: socket.socket) -> bool:
    """Whether a connection waits to be accepted."""
    if not hasattr(select, "poll"):
        # Windows, where a set of sockets may have any of them.
        return bool(select.select([listener], [], [], 0)[0])
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return bool(poll.poll(0))


class _FewLines(logging.Filter):
    """Lets no more than `bounds.LINES_A_MINUTE` through, since the log is on a user's disk."""

    _minute, _said = -1, 0

    def filter(self, record: logging.LogRecord) -> bool:
        minute = int(time.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._said = minute, 0
        self._said += 1
        return self._said <= bounds.LINES_A_MINUTE


def track(listener: socket.socket, stop_key: str) -> None:
    """Tracks until it is asked to end.

    Args:
        listener: where clients and devices connect.
        stop_key: of the message that ends it.
    """
    asyncio.set_event_loop(asyncio.new_event_loop())
    tracker.logger.addFilter(_FewLines())
    listener.listen(bounds.BACKLOG)
    GuardedTracker(listener, stop_key).run()
