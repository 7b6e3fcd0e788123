"""Starts and stops the phone: a tracker, and the server in an emulated process of its own root.

The server sees the root folder and nothing else: it has namespaces of its own for mounts and
processes. Both processes end when their standard input is closed, so they go with the process that
started them, however it ends; and when the server goes, the kernel ends all that it has started and
takes its mounts away.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from odtc.core.errors import DeviceError
from odtc.core.process.progress import Progress, silent
from odtc.runtime_rpc.standin.root import EMULATOR
from odtc.runtime_rpc.standin.systems import Making, System, android
from odtc.runtime_rpc.standin.tools import find_tool, last_lines
from odtc.runtime_rpc.tracker import tracker_server
from odtc.runtime_rpc.tracker.trackers import tracker_at

START_SECONDS = 60.0

_LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 2.0
_LOG_BYTES = 8192
_SESSIONS = "/tmp/sessions"  # noqa: S108
_START_HINT = "where `unshare` or `mount` is refused, allow user namespaces or run as root"

# Read-only, so that no session can change the root for the next; /tmp is the phone's memory.
_ENTER = """
root=$1 emulator=$2
shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind /dev/null "$root/dev/null"
mount --bind /dev/urandom "$root/dev/urandom"
mount --bind "$emulator" "$root$EMULATOR"
while [ "$1" != -- ]; do
    test -e "$root$2" || mkdir "$root$2"
    mount --rbind "$1" "$root$2"
    shift 2
done
shift
mount -o remount,bind,ro,nosuid,nodev "$root"
exec chroot "$root" "$@"
""".replace("$EMULATOR", EMULATOR)


class EmulatedPhone:
    """An emulated phone behind a tracker.

        with EmulatedPhone() as phone:
            session = connect(phone.url)

    Args:
        key: the device key that it registers.
        tracker_port: the tracker's port; 0 is one that is free.
        progress: called with the stage of the start.
        system: makes what it runs.
    """

    def __init__(
        self,
        key: str = "android",
        tracker_port: int = 0,
        progress: Progress = silent,
        *,
        system: Making = android,
    ) -> None:
        self.key = key
        self._system = system
        self.tracker_port = tracker_port
        self._progress = progress
        self._log: IO[bytes]
        self._server: subprocess.Popen[bytes]
        self._stack = ExitStack()

    @property
    def url(self) -> str:
        """`rpc://127.0.0.1:PORT/KEY`."""
        return f"rpc://{_LOOPBACK}:{self.tracker_port}/{self.key}"

    def start(self) -> None:
        """Starts the phone; returns when a session can be opened.

        Raises:
            BuildError: what it runs is not in the cache and cannot be built.
            DeviceError: the phone did not start within `START_SECONDS`.
        """
        with ExitStack() as stack:
            files = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="odtc-phone-")))
            system = self._system(files, self._progress)
            self._progress("starting the phone")
            self._log = stack.enter_context(tempfile.TemporaryFile("a+b"))
            with self._listen() as listener:
                self.tracker_port = listener.getsockname()[1]
                stack.enter_context(running(_tracker_command(listener), self._log, listener))
            command = [*_enter(system), *self._options()]
            environment = system.environment
            self._server = stack.enter_context(running(command, self._log, env=environment))
            self._wait_until_free()
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Ends all its processes. A phone that is not running stays as it is."""
        self._stack.close()

    def wait(self) -> None:
        """Waits until the phone ends by itself, which it should not.

        Raises:
            DeviceError: it has.
        """
        self._server.wait()
        raise self._failure("the phone has ended")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _options(self) -> list[str]:
        where = ["--listen", "tcp:0", "--tracker", f"tcp:{self.tracker_port}"]
        what = ["--key", self.key, "--emulated", "--until-closed"]
        return [*where, *what, "--folder", _SESSIONS]

    def _listen(self) -> socket.socket:
        try:
            return socket.create_server((_LOOPBACK, self.tracker_port))
        except OSError as error:
            raise DeviceError(
                f"the tracker cannot listen: {error.strerror}",
                where=f"{_LOOPBACK}:{self.tracker_port}",
                hint="choose another port, or 0 for one that is free",
            ) from error

    def _wait_until_free(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        address = (_LOOPBACK, self.tracker_port)
        with tracker_at(address, START_SECONDS, self.url) as tracker:
            while not any(it.free for it in tracker.devices() if it.key == self.key):
                if self._server.poll() is not None:
                    raise self._failure("the phone ended as it started", _START_HINT)
                if time.monotonic() > deadline:
                    raise self._failure(f"the phone did not start in {START_SECONDS:.0f} s")
                time.sleep(_POLL_SECONDS)

    def _failure(self, what: str, hint: str | None = None) -> DeviceError:
        log = self._log.fileno()
        # Not `seek`: the position is shared with the processes that write.
        end = os.pread(log, _LOG_BYTES, max(0, os.fstat(log).st_size - _LOG_BYTES))
        return DeviceError(
            f"{what}; its log ends with\n{last_lines(end.decode(errors='replace'))}",
            where=self.url,
            hint=hint,
        )


def _tracker_command(listener: socket.socket) -> list[str]:
    return [sys.executable, "-m", tracker_server.__name__, str(listener.fileno())]


def _enter(system: System) -> list[str]:
    """The command that enters the root and starts the server there; its options follow."""
    emulator = find_tool("qemu-aarch64-static")
    unshare = [find_tool("unshare"), "--mount", "--pid", "--fork", "--kill-child"]
    # A user other than root becomes root, but only in there.
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    mounted = [word for there, here in system.mounted.items() for word in (str(here), there)]
    words = [str(system.root), emulator, *mounted, "--", *system.command]
    return [*unshare, *user, "sh", "-euc", _ENTER, "sh", *words]


@contextmanager
def running(
    command: Sequence[str],
    log: IO[bytes],
    *inherited: socket.socket,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process, in a group of its own, that ends with the block."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        env=env,
        pass_fds=[one.fileno() for one in inherited],
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        try:
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
