"""The process of a session, as the server sees it: its limits, and its end."""

import ctypes
import os
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tvm.rpc import _ffi_api

from odtc.runtime_rpc.server.log import say

# How folders of sessions are called, in a folder that may hold other things.
SESSION_PREFIX = "odtc-session-"
# The session of a client that has gone has this long to finish what it computes.
_GRACE_SECONDS = 3.0
# `struct timeval`: seconds, microseconds.
_ONE_SECOND = struct.pack("ll", 1, 0)
# Of Linux's `prctl`: the signal that a process gets when its parent has ended.
_SET_DEATH_SIGNAL = 1
_prctl = ctypes.CDLL(None).prctl


@dataclass(frozen=True)
class SessionLimits:
    """Time limits of a session.

    Attributes:
        session: seconds in all; 0 is without end.
        idle: seconds from one sign of life of its client to the next, once there was one.
    """

    session: float = 0.0
    idle: float = 30.0


class Child:
    """A session's process, and its folder.

    Attributes:
        key: of the session.
        pid: of the process, which leads a group of its own.
        why: the reason of its end, for its client; '' as long as all is well.
    """

    def __init__(
        self,
        connection: socket.socket,
        key: str,
        limits: SessionLimits,
        folders: Path,
        serve: Callable[[socket.socket, Path], None],
    ) -> None:
        self.key = key
        self._connection, self._limits = connection, limits
        self._folder = Path(tempfile.mkdtemp(dir=folders, prefix=SESSION_PREFIX))
        self._began = time.monotonic()
        self._beaten: float | None = None
        self._left: float | None = None
        self.why = ""
        try:
            self.pid = _fork(lambda: serve(connection, self._folder))
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def beat(self) -> None:
        """Notes a sign of life of the client."""
        self._beaten = time.monotonic()

    def ended(self) -> bool:
        """Ends the process if it has to end; returns whether it has, and is cleaned up."""
        pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            self._check_limits()
            return False
        if os.WIFSTOPPED(status):
            self._end("its process was stopped")
            return False
        why = _how(status)
        if why:
            self._tell(why)
        self._clean()
        return True

    def kill(self) -> None:
        """Ends it at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self._clean()

    def _check_limits(self) -> None:
        now = time.monotonic()
        limits = self._limits
        if limits.session and now - self._began > limits.session:
            self._end(f"it has expired after {limits.session:g} s (RPCSessionTimeoutError)")
        elif self._beaten is not None and now - self._beaten > limits.idle:
            self._end(f"its client gave no sign of life for {limits.idle:g} s")
        elif _is_closed(self._connection):
            self._left = self._left or now
            if now - self._left > _GRACE_SECONDS:
                self._end("its client has gone")

    def _end(self, why: str) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._tell(why)

    def _tell(self, why: str) -> None:
        """Fails the client's current or next call with the reason; the first reason counts."""
        if self.why:
            return
        self.why = text = f"the session ended: {why}"
        say(text)
        with suppress(Exception):
            # A client that reads nothing may not stop the server: the socket blocks.
            if not _is_closed(self._connection) and _takes_more(self._connection):
                self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _ONE_SECOND)
                _ffi_api.ReturnException(self._connection.fileno(), text)
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _clean(self) -> None:
        # Processes that it started end with it.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _fork(work: Callable[[], None]) -> int:
    server, pid = os.getpid(), os.fork()
    if pid:
        with suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        return pid
    status = 1
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        # These handlers are for the server's loop; here they would ignore the signals.
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _end_with(server)
        work()
        status = 0
    except BaseException:
        say(traceback.format_exc())
    finally:
        os._exit(status)


def _end_with(server: int) -> None:
    """Ends this process when the server is killed: the next server would not know of it."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        os._exit(1)


def _how(status: int) -> str:
    """Describes how a process ended that should not have; '' if all was well."""
    if os.WIFSIGNALED(status):
        return f"its process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    code = os.WEXITSTATUS(status)
    return f"its process ended with status {code}" if code else ""


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection, even if there is data left to read."""
    poll = select.poll()
    poll.register(connection, select.POLLRDHUP)
    return bool(poll.poll(0))


def _takes_more(connection: socket.socket) -> bool:
    """Whether the send buffer has room for a few more bytes."""
    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    return bool(poll.poll(0))
