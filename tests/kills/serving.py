"""`odtc train` on a device whose server is on this machine: the run, server or session is killed.

A run that is killed leaves a device that is free soon, by the same server, with no process and no
file of a session. A server that is killed takes its session's process with it. The run goes on by
itself when there is another server, or session, or, where it had not begun, with the next start.
The checkpoints are those of the uninterrupted run on this machine, in all of these.
"""

import os
import random
import signal
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

from odtc.core.errors import DeviceError, ExitCode
from odtc.runtime_rpc.guards.limits import DEFAULT
from odtc.runtime_rpc.server import __main__ as server_main
from odtc.runtime_rpc.tracker.greeting import status
from odtc.runtime_rpc.tracker.trackers import Registered, tracker_at
from tests.cli.training.digits import Digits
from tests.kills.killed import ALONE_SECONDS, Place
from tests.kills.training import Train
from tests.runtime_rpc.own_server import url_of, words_of
from tests.runtime_rpc.own_tracker import tracking

# In which a device is free again, whenever its client was killed: the tracker may just have given
# it away, to a client who does not come any more. The next client waits that long (`Limits`).
FREE_SECONDS = DEFAULT.request
_SECONDS = 5.0


class Device:
    """A server behind a tracker, which can be killed and started again.

    Args:
        folder: to work in; it exists.
    """

    def __init__(self, folder: Path) -> None:
        self._stack = ExitStack()
        self.port = self._stack.enter_context(tracking())
        self.place = Place(folder, server_main.__name__)
        self._stack.callback(self.place.server.close)
        self.pid = 0

    def start(self) -> None:
        """Starts a server."""
        self.pid = self.place.server.start(words_of(self.port, self.sessions))

    def kill(self, number: signal.Signals) -> None:
        """Kills the server, and waits for its end."""
        self.place.server.kill(number)
        self.place.server.wait()

    def processes(self) -> list[int]:
        """The server and its sessions."""
        return self.place.processes()

    def left(self) -> list[Path]:
        """What lies in its folders, but for what belongs there."""
        return [*self.sessions.iterdir(), *self.place.left(self.sessions.name)]

    @property
    def sessions(self) -> Path:
        """The folder that sessions have theirs in."""
        return self.place.folder / "sessions"

    def is_free(self) -> bool:
        """Whether this server has no session, nothing is left of one, and a client can have it."""
        device = self._registered()
        return (
            device is not None
            and device.free == 1
            and self._said(device, "server_pid", "busy") == [self.pid, False]
            and self.processes() == [self.pid]
            and not self.left()
        )

    def is_there(self) -> bool:
        """Whether the tracker knows this server, be it free or not."""
        device = self._registered()
        return device is not None and self._said(device, "server_pid") == [self.pid]

    def _registered(self) -> Registered | None:
        with tracker_at(("127.0.0.1", self.port), _SECONDS, "tracker") as tracker:
            found = tracker.devices()
        return found[0] if found else None

    def _said(self, device: Registered, *names: str) -> list[Any] | None:
        """Values of its status; None where it gives none."""
        try:
            said: Any = status(device.addresses[-1], _SECONDS, "device")
        except DeviceError:
            return None
        return [said[name] for name in names]

    def close(self) -> None:
        """Ends the server and the tracker."""
        self._stack.close()


class OnDevice(Train):
    """A run that is killed, by a server that lives.

    Args:
        digits: model and data.
        folder: to work in.
    """

    name: ClassVar[str] = "device"
    # What has the device.
    server: ClassVar[type["Device"]] = Device

    def __init__(self, digits: Digits, folder: Path, *options: str) -> None:
        (there := folder / "device").mkdir()
        with ExitStack() as failed:
            self.device = self.server(there)
            failed.callback(self.device.close)
            self.device.start()
            super().__init__(digits, folder, "--device", url_of(self.device.port), *options)
            self.waited("", self.device.is_free, FREE_SECONDS)
            failed.pop_all()

    def finish(self) -> None:
        """Lets the run come to its end; the device is free then."""
        super().finish()
        self.waited("free", self.device.is_free, FREE_SECONDS)

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Kills the run, and waits until the device is free."""
        super().kill(number, rng)
        self.waited("free", self.device.is_free, FREE_SECONDS)

    def close(self) -> None:
        """Ends all that still runs."""
        super().close()
        self.device.close()


class OfServer(OnDevice):
    """A run whose server is killed and started again."""

    name: ClassVar[str] = "server"

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Kills a part of the device in the middle of a run, which goes on by itself."""
        seconds, before = self.drawn(rng), self.step
        run = self.start()
        self.sleep(seconds)
        at = self.kill_part(number)
        code = self.until_end(run)
        # What has begun goes on by itself.
        is_late = code in (ExitCode.DEVICE, ExitCode.DEVICE_LOST) and at == before
        assert code == 0 or is_late, f"{code}, from {before} to {at}: {self.said}"
        assert self.step >= at >= before
        assert code or self.step == self.steps
        self.counts["in the middle"] += before < at < self.steps
        self.counts["went on by itself"] += "the device is back" in self.said
        self.counts["ended before it began"] += code != 0
        self.assert_nothing_left()
        self.waited("free", self.device.is_free, FREE_SECONDS)

    def kill_part(self, number: signal.Signals) -> int:
        """Kills the server, and starts another one.

        Returns:
            The step of the checkpoint in between.
        """
        self.device.kill(number)
        self.waited("alone", lambda: not self.device.processes(), ALONE_SECONDS)
        at = self.step
        self.device.start()
        return at


class OfSession(OfServer):
    """A run whose session's process on the device is killed, as by a system short of memory."""

    name: ClassVar[str] = "session"

    def kill_part(self, number: signal.Signals) -> int:
        """Kills the session's process, if there is one yet."""
        server = self.device.pid
        sessions = [pid for pid in self.device.processes() if pid != server]
        for pid in sessions:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        self.counts["no session"] += not sessions
        self.waited(
            "alone", lambda: not set(sessions) & set(self.device.processes()), ALONE_SECONDS
        )
        return self.step
