"""Ends calls that a device does not answer: TVM's client waits without end.

A thread gives the server signs of life and takes its answers for the device's. Where they stay out,
or a call takes longer than it may, it shuts the connections to the device down, and the call fails.
"""

import os
import socket
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from odtc.runtime_rpc.guards.limits import Limits
from odtc.runtime_rpc.server.net import wire
from odtc.runtime_rpc.tracker.greeting import why_ended
from odtc.runtime_rpc.tracker.trackers import Address

# Where Linux and macOS list the open files of a process. Windows lists none: there a socket is a
# handle, and those are small numbers.
_LISTS = ("/proc/self/fd", "/dev/fd")
_MOST_HANDLES = 1 << 16


_AT_WORK: "weakref.WeakSet[Watchdog]" = weakref.WeakSet()


class Watchdog:
    """A watch over the session with one device.

    Args:
        address: of the device's server.
        match: the session's key.
        limits: of the session.
        questions: a connection to the server for signs of life; None if the server has none.
        ends: of the session's connection, on this side; where none was found, all to the address.

    Attributes:
        failure: what is wrong with the device; None as long as nothing is.
    """

    def __init__(
        self,
        address: Address,
        match: str,
        limits: Limits,
        questions: socket.socket | None,
        ends: Collection[Address],
    ) -> None:
        self.failure: str | None = None
        self._address, self._match, self._limits = address, match, limits
        self._questions, self._ends = questions, ends or None
        self._allowed, self._deadline = limits.run, float("inf")
        self._depth = 0
        self._over = threading.Event()
        if questions:
            questions.settimeout(limits.silence)
        threading.Thread(target=self._watch, name="odtc-watchdog", daemon=True).start()
        _AT_WORK.add(self)

    @contextmanager
    def call(self, runs: int = 1) -> Iterator[None]:
        """A block that may last as long as so many runs of a step may."""
        if not self._depth:
            self._allowed = runs * self._limits.run
            self._deadline = time.monotonic() + self._allowed
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._deadline = float("inf")

    def why_ended(self) -> str:
        """The server's reason for the end of its session; '' where there is none.

        It tells the session's connection, too, but what is sent at that moment may end that first.
        """
        if not self._questions:
            return ""
        return why_ended(self._address, self._match, self._limits.connect)

    def _beat(self, connection: socket.socket) -> dict[str, Any]:
        return wire.ask(connection, {"ask": "beat", "session": self._match})

    def stop(self) -> None:
        """Ends the watch."""
        self._over.set()
        if self._questions:
            with suppress(OSError):
                self._questions.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Ends the watch, and the session with it."""
        self.stop()
        shut_down(self._address, self._ends)

    def leave(self) -> None:
        """Lets go of the session in a fork of its process, which has the same connections.

        What ends with the fork would be told to the device, and the session ended.
        """
        self._over = threading.Event()
        self._over.set()
        ends = set(self._ends or ends_to(self._address))
        if self._questions:
            with suppress(OSError):
                ends.add(self._questions.getsockname()[:2])
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number, connection in _connections(self._address):
            with suppress(OSError):
                if connection.getsockname()[:2] in ends:
                    os.dup2(nowhere, number)
        os.close(nowhere)

    def _watch(self) -> None:
        period = min(self._limits.beat, self._limits.run)
        while not self.failure and not self._over.wait(period):
            late = time.monotonic() > self._deadline
            self.failure = f"it took more than {self._allowed:g} s" if late else self._listen()
        if self.failure and not self._over.is_set():
            shut_down(self._address, self._ends)
        if self._questions:
            self._questions.close()

    def _listen(self) -> str | None:
        """The fault of the device, if there is one."""
        if not self._questions:
            return None
        try:
            alive = self._beat(self._questions)["alive"]
        except TimeoutError:
            return f"it gave no sign of life for {self._limits.silence:g} s"
        except wire.RefusedError as error:
            return str(error)
        except (OSError, ValueError, KeyError):
            return "the connection to it was cut"
        if not alive:
            # The server closes the session's connection by itself, with a reason.
            self._over.set()
        return None


def ends_to(address: Address) -> set[Address]:
    """This side's ends of all connections of this process to an address."""
    return {connection.getsockname()[:2] for _, connection in _connections(address)}


def shut_down(address: Address, ends: Collection[Address] | None = None) -> None:
    """Ends connections of this process to an address, so that nobody waits for them any more.

    Args:
        address: the other side's.
        ends: this side's, of those that are ended; None for all of them.
    """
    for _, connection in _connections(address):
        with suppress(OSError):
            if ends is None or connection.getsockname()[:2] in ends:
                connection.shutdown(socket.SHUT_RDWR)


def _connections(address: Address) -> Iterator[tuple[int, socket.socket]]:
    """Numbers of the connections to an address, each with a socket while it is looked at."""
    for number in _open_files():
        with suppress(OSError), _copy(number) as connection:
            if connection.getpeername()[:2] == address:
                yield number, connection


def _open_files() -> Iterable[int]:
    """Numbers that sockets of this process have, and others."""
    for folder in _LISTS:
        with suppress(OSError):
            return [int(name) for name in os.listdir(folder)]
    return range(_MOST_HANDLES)


def _copy(number: int) -> socket.socket:
    """A socket by its number: of its own, as the number may be another file's in a moment.

    Raises:
        OSError: it is no socket.
    """
    # The socket's own method would make all copies of it blocking, another process's too.
    copy = socket.dup(number)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        socket.close(copy)
        raise


def _leave_all() -> None:
    for watchdog in list(_AT_WORK):
        watchdog.leave()


if register := getattr(os, "register_at_fork", None):  # Windows does not fork
    register(after_in_child=_leave_all)
