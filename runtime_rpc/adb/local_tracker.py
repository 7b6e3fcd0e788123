"""The tracker of this host's phones: it runs in the background while there are any.

It is TVM's own, on loopback. `odtc device setup` starts it, and stopping the last phone ends it.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odtc.core.disk.files import atomic_write
from odtc.core.errors import DeviceError
from odtc.core.process.missing_packages import require_packages
from odtc.runtime_rpc.adb import state
from odtc.runtime_rpc.adb.state import LOOPBACK
from odtc.runtime_rpc.tracker import tracker_server
from odtc.runtime_rpc.tracker.trackers import tracker_at

DEFAULT_PORT = 9190
_SECONDS = 5.0
_START_SECONDS = 30.0
_POLL_SECONDS = 0.02
# Of Windows, where there are no sessions: without the console of this process.
_DETACHED = getattr(subprocess, "DETACHED_PROCESS", 0)


@dataclass(frozen=True)
class LocalTracker:
    """A tracker of this host, which may be about to start.

    Attributes:
        port: of loopback, where it listens.
        process: of one that was started just now.
    """

    port: int
    process: subprocess.Popen[bytes] | None = None

    def wait(self) -> None:
        """Waits until it answers.

        Raises:
            DeviceError: it does not start.
        """
        deadline = time.monotonic() + _START_SECONDS
        while self.process and not _answers(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise DeviceError(
                    "the tracker did not start",
                    where=str(_path(self.port).with_suffix(".log")),
                    hint="that file says why",
                )

    def end(self) -> None:
        """Ends one that was started just now and that no phone needs."""
        if self.process and not _is_used(self.port):
            self.process.kill()
            self.process.wait()
            _path(self.port).unlink(missing_ok=True)


def ensure(port: int) -> int:
    """Ensures that a tracker answers at a port of loopback, and returns the port; 0 is any.

    Raises:
        DeviceError: the port is in use by something else, or the tracker does not start.
    """
    tracker = begin(port)
    tracker.wait()
    return tracker.port


def begin(port: int) -> LocalTracker:
    """The tracker at a port, or one that is started there: that takes a second.

    Raises:
        DeviceError: the port is in use by something else.
        MissingPackageError: TVM is not installed, of which the tracker is.
    """
    with state.alone("the tracker"):
        # One that somebody else has started just now imports TVM before it answers.
        if port and _answers(port, _START_SECONDS if _path(port).exists() else _SECONDS):
            return LocalTracker(port)
        require_packages("tvm", "tornado")
        try:
            with socket.create_server((LOOPBACK, port)) as listener:
                port = listener.getsockname()[1]
        except OSError as error:
            raise DeviceError(
                f"no tracker can listen on port {port}: {os.strerror(error.errno or 0)}",
                where=_name(port),
                hint="`odtc device setup SERIAL --tracker 0` takes a port that is free",
            ) from error
        return LocalTracker(port, _start(port))


def stop_if_unused(port: int) -> bool:
    """Ends the tracker that `ensure` started, if no phone needs it; whether it did."""
    path = _path(port)
    if not path.exists() or _is_used(port):
        return False
    key = json.loads(path.read_text())["key"]
    with suppress(DeviceError), tracker_at((LOOPBACK, port), _SECONDS, _name(port)) as tracker:
        tracker.stop(key)
    path.unlink()
    return True


def _is_used(port: int) -> bool:
    return any(phone.tracker == port for phone in state.phones())


def _answers(port: int, seconds: float = _SECONDS) -> bool:
    try:
        with tracker_at((LOOPBACK, port), seconds, _name(port)):
            return True
    except DeviceError:
        return False


def _start(port: int) -> subprocess.Popen[bytes]:
    """Starts a tracker that goes on without this process and its terminal; it listens then."""
    key = secrets.token_hex(16)
    path = _path(port)
    state.make_folder()
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"port": port, "key": key}))
    with path.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", tracker_server.__name__, str(port), "--detached"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            creationflags=_DETACHED,
        )
    assert process.stdin
    with suppress(BrokenPipeError), process.stdin as pipe:  # it has ended: the caller tells of it
        pipe.write(key.encode())
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((LOOPBACK, port), _SECONDS):
            break
        time.sleep(_POLL_SECONDS)
    return process


def _path(port: int) -> Path:
    return state.folder() / f"tracker-{port}.json"


def _name(port: int) -> str:
    return f"{LOOPBACK}:{port}"
