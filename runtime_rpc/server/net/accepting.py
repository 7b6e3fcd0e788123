"""Accepts connections, finds their owners, and copes with a lack of free files."""

import errno
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from odtc.runtime_rpc.server.log import RateLimitedLog
from odtc.runtime_rpc.server.net import bounds
from odtc.runtime_rpc.server.net.files import READ, Files

# Users of a phone by number: root, and the shell that adb's daemon runs as.
_TRUSTED = {0, 2000}
# Process, user, group.
_CREDENTIALS = struct.Struct("3i")
_NO_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Accepting:
    """The connections that wait at a listener.

    Args:
        listener: it does not block.
        files: where its events come from.
    """

    def __init__(self, listener: socket.socket, files: Files) -> None:
        self._listener, self._files = listener, files
        self._limited_log = RateLimitedLog(bounds.LINES_A_MINUTE)
        self._pauses_until: float | None = None
        files.want(listener, READ)

    def is_due(self, ready: dict[int, int]) -> bool:
        """Whether connections may be waiting; after a pause they are assumed to."""
        if self._pauses_until is None:
            return self._listener.fileno() in ready
        if time.monotonic() < self._pauses_until:
            return False
        self._pauses_until = None
        self._files.want(self._listener, READ)
        return True

    def take(self, make_room: Callable[[], bool]) -> Iterator[tuple[socket.socket, str]]:
        """Accepts trusted connections, each with its owner; no more than fit in a turn.

        Args:
            make_room: closes some file, and says whether it could.
        """
        for _ in range(bounds.ACCEPTED_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    # The peer left before it was accepted.
                    continue
                # The system looks for a free file first, and only then whether a peer waits.
                if not self._waits():
                    return
                if not make_room():
                    self._limited_log.say(f"no connection can be accepted: {error.strerror}")
                    self._pause()
                    return
                continue
            if is_trusted(connection):
                yield connection, owner(connection, address)
            else:
                connection.close()

    def _waits(self) -> bool:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        return bool(poll.poll(0))

    def _pause(self) -> None:
        """Pauses: else the listener would be ready all the time."""
        self._files.forget(self._listener)
        self._pauses_until = time.monotonic() + bounds.NO_FILES_SECONDS


def is_trusted(connection: socket.socket) -> bool:
    """Whether the peer is this user, root or adb's daemon; with TCP this is unknown.

    On a phone, every app can reach a listener on loopback.
    """
    if connection.family != socket.AF_UNIX:
        return True
    return _user(connection) in _TRUSTED | {os.getuid()}


def owner(connection: socket.socket, address: Any) -> str:
    """Names the owner of a connection: an address, or a user of this device."""
    if connection.family != socket.AF_UNIX:
        return str(address[0])
    return f"user {_user(connection)}"


def _user(connection: socket.socket) -> int:
    size = _CREDENTIALS.size
    return _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[
        1
    ]
