"""`odtc train` on an odtc-device, killed when a step that was chosen before has been taken.

In turn the run, its session and the server are killed, none of them too early or too late: what
tells the step is the checkpoint. Each of these is one of the uninterrupted run on this machine,
byte for byte, on its CPU or by the GPU that the device has, too. Several steps are one call.
"""

import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from odtc.runtime_rpc.native.device.build import device_program
from tests.cli.training.digits import Digits, make_digits
from tests.kills.fork_server import has_ended
from tests.kills.killed import ALONE_SECONDS, POLL_SECONDS, processes_of
from tests.kills.serving import FREE_SECONDS, Device, OnDevice
from tests.runtime_rpc.own_server import words_of

# Steps of a call, and between two checkpoints.
AT_ONCE = 4
# Each run of a GPU's takes seconds here.
_STEPS = 60
# After it a run may end before it is killed; a round that comes too late is taken again.
_LAST = _STEPS - 5 * AT_ONCE
_STEP_SECONDS = 120.0
# Of a round that comes too late: where a signal is ignored, as below `nohup`, all do.
_TURNS = 20
_NONE = subprocess.DEVNULL
_KERNELS = "gpu-programs"


class Program(Device):
    """An odtc-device behind a tracker.

    Args:
        folder: to work in; it exists.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._program = folder / "odtc-device"
        self._program.write_bytes(device_program())
        self._program.chmod(0o700)
        (folder / "of-program").mkdir()
        self._environment = os.environ | {"TMPDIR": str(folder / "of-program")}
        self._process: subprocess.Popen[bytes] | None = None
        self._stack.callback(self.kill, signal.SIGKILL)

    def start(self) -> None:
        """Starts a server, whose version is its own, and waits until a client can ask for it."""
        words = words_of(self.port, self.sessions)
        at = words.index("--odtc")
        command = [str(self._program), *words[:at], *words[at + 2 :]]
        self._process = subprocess.Popen(
            command, env=self._environment, stdin=_NONE, stdout=_NONE, stderr=_NONE
        )
        self.pid = self._process.pid
        while self._process.poll() is None and not self.is_there():
            time.sleep(POLL_SECONDS)

    def kill(self, number: signal.Signals) -> None:
        """Kills the server, and waits for its end."""
        if self._process:
            self._process.send_signal(number)
            self._process.wait()

    def processes(self) -> list[int]:
        """The server and its sessions."""
        return processes_of(Path(self._environment["TMPDIR"]))

    def left(self) -> list[Path]:
        """What lies there beside the kernels that sessions keep for one another."""
        found = [path for path in self.sessions.iterdir() if path.name != _KERNELS]
        return [*found, *Path(self._environment["TMPDIR"]).iterdir()]


class AtStep(OnDevice):
    """A run on a device of some target.

    Args:
        digits: data; the model is compiled for the target.
        folder: to work in.
    """

    name: ClassVar[str] = "step-cpu"
    target: ClassVar[str] = "host-cpu{threads=8}"
    server: ClassVar[type[Device]] = Program
    steps: ClassVar[int] = _STEPS
    every: ClassVar[int] = AT_ONCE

    def __init__(self, digits: Digits, folder: Path) -> None:
        (compiled := folder / "compiled").mkdir()
        own = replace(digits, artifact=make_digits(compiled, self.target).artifact)
        super().__init__(own, folder, "--steps-per-call", str(AT_ONCE))
        self._parts = itertools.cycle((self._kill_run, self._kill_session, self._kill_server))

    def kill(self, number: signal.Signals, rng: random.Random) -> None:
        """Kills the next of the three in the middle of a run."""
        part = next(self._parts)
        for _ in range(_TURNS):
            if self._is_hit(part, number, rng):
                self.counts["in the middle"] += 1
                return
            self.counts["taken again"] += 1
        raise AssertionError(f"{_TURNS} times nothing was killed by {number.name}: {self.said}")

    def _is_hit(
        self,
        part: Callable[[int, signal.Signals], bool],
        number: signal.Signals,
        rng: random.Random,
    ) -> bool:
        if self.step > _LAST - AT_ONCE:
            self.path.unlink()
            self.counts["runs"] += 1
        at = rng.randrange(self.step + AT_ONCE, _LAST + 1)
        run = self.start()
        self.waited("", lambda: has_ended(run) or self.step >= at, _STEP_SECONDS)
        is_hit = part(run, number)
        assert self.step >= at
        self.assert_nothing_left()
        self.waited("free", self.device.is_free, FREE_SECONDS)
        return is_hit

    def _kill_run(self, run: int, number: signal.Signals) -> bool:
        self.place.server.kill(number)
        return self.ended(number) != 0

    def _kill_session(self, run: int, number: signal.Signals) -> bool:
        sessions = {pid for pid in self.device.processes() if pid != self.device.pid}
        for pid in sessions:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        self.waited("alone", lambda: not sessions & {*self.device.processes()}, ALONE_SECONDS)
        return self._goes_on(run)

    def _kill_server(self, run: int, number: signal.Signals) -> bool:
        self.device.kill(number)
        self.waited("alone", lambda: not self.device.processes(), ALONE_SECONDS)
        self.device.start()
        return self._goes_on(run)

    def _goes_on(self, run: int) -> bool:
        """Whether the run did, which comes to its end; one that had ended needed not to."""
        assert self.until_end(run) == 0, self.said
        assert self.step == self.steps
        has_gone_on = "the device is back" in self.said
        self.counts["went on by itself"] += has_gone_on
        return has_gone_on


class AtStepOfOpenCL(AtStep):
    """The same on PoCL."""

    name: ClassVar[str] = "step-opencl"
    target: ClassVar[str] = "host-opencl"
    threads: ClassVar[tuple[str, ...]] = ()


class AtStepOfVulkan(AtStep):
    """The same on lavapipe."""

    name: ClassVar[str] = "step-vulkan"
    target: ClassVar[str] = "host-vulkan"
    threads: ClassVar[tuple[str, ...]] = ()
