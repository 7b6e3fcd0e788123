"""A device that runs a step: this machine, or one behind a TVM RPC tracker.

TVM's tracker and server have neither authentication nor encryption. Bind them to loopback and
reach a phone through `adb forward` or ssh.
"""

import json
import os
import platform
import re
import secrets
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import tvm
from tvm import relax, rpc
from tvm.rpc.base import RPC_TRACKER_MAGIC

from odtc.backends.native.build import load_runtime
from odtc.backends.targets import CPU
from odtc.core.errors import DeviceError, UsageError
from odtc.runtime_rpc.free_memory import available_bytes

CONNECT_SECONDS = 5.0
SESSION_SECONDS = 3600

_LAST_PORT = (1 << 16) - 1
_URL = re.compile(r"rpc://(?P<host>[^/:\s]+):(?P<port>\d{1,5})/(?P<key>[^/\s]+)")
# An RPC function of devices that describe themselves: JSON with `emulated` and `machine`.
_INFO = "odtc.device_info"
# TVM raises no class of its own: a failure in C++ comes as one of Python's, by the kind it names.
FAILURES = (RuntimeError, OSError, ValueError, TypeError, AttributeError)
# What they say, in C++ or by an OpenCL driver, where an arena cannot be allocated.
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of (device|host) (memory|resources)|a buffer of \d+ bytes"
)
# The virtual machine keeps the arenas of steps that nobody will run again, for others of that size.
_FREE_ARENAS = "vm.builtin.memory_manager.clear"
# Which cores threads are bound to, as modes of `runtime.config_threadpool`: the fastest first, or
# the slowest.
CORES = {"big": 1, "little": -1}
# Kind of a target -> TVM's name of such a device, and the number of the one that is used.
_DEVICES = {CPU: ("cpu", 0), "opencl": ("opencl", 0), "vulkan": ("vulkan", 0)}
# What lists such devices on Linux.
_LISTED_BY = {"opencl": "clinfo -l", "vulkan": "vulkaninfo --summary"}


class Session(Protocol):
    """Somewhere that a step can run.

    Attributes:
        is_local: whether it is this process.
    """

    is_local: ClassVar[bool]

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def device(self) -> Any:
        """TVM's device."""
        ...

    def on(self, kind: str) -> "Session":
        """The same place, with the device of a kind as `device`: of a target's, see `Target`.

        Raises:
            BuildError: what drives such devices cannot be built here.
            DeviceError: there is none.
        """
        ...

    def load(self, library: Path) -> relax.VirtualMachine:
        """Loads a library on the device, frees idle arenas there, and starts a virtual machine."""
        ...

    def fill(self, tensor: tvm.runtime.Tensor, parts: Iterable[np.ndarray]) -> None:
        """Gives a tensor of this device its elements, in flat parts that follow each other."""
        ...

    def use_threads(self, count: int, cores: str = "big") -> None:
        """Sets the number of worker threads, and binds each to a core.

        Args:
            count: of threads; 0 for as many as there are cores of that kind.
            cores: `big` for the fastest ones first, `little` for the slowest.
        """
        ...

    def free_arenas(self) -> None:
        """Gives back the memory that the device keeps for steps to come."""
        ...

    def available_bytes(self) -> int:
        """Bytes of memory that a step could still take.

        Raises:
            DeviceError: the device does not say.
        """
        ...

    def info(self) -> dict[str, Any]:
        """What the device says of itself.

        Returns:
            `emulated`: whether its times mean nothing. `machine`, where it is known: the
            architecture, as `uname -m` has it.
        """
        ...


@dataclass(frozen=True)
class LocalSession:
    """This process.

    Attributes:
        kind: of its device.
    """

    name: str = "this machine"
    kind: str = CPU
    is_local: ClassVar[bool] = True

    @property
    def device(self) -> Any:
        """TVM's device."""
        return tvm.device(*_DEVICES[self.kind])

    def on(self, kind: str) -> Session:
        """This process with its first device of a kind; GPUs come before others."""
        if kind == self.kind:
            return self
        load_runtime(kind)
        _check_exists(found := replace(self, kind=kind))
        return found

    def load(self, library: Path) -> relax.VirtualMachine:
        """Loads a library into this process.

        Raises:
            DeviceError: it was compiled for another kind of machine.
        """
        # TVM's pool is made at the first parallel kernel, on x86 for half of the logical cores.
        os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))
        self.free_arenas()
        with device_errors(self.name):
            return relax.VirtualMachine(tvm.runtime.load_module(str(library)), self.device)

    def fill(self, tensor: tvm.runtime.Tensor, parts: Iterable[np.ndarray]) -> None:
        """Writes the parts where they belong, so that only one of them is in memory twice.

        A GPU is sent the tensor as a whole.
        """
        if self.kind == CPU:
            _write(np.from_dlpack(tensor), parts)
        else:
            _send(tensor, parts)

    def use_threads(self, count: int, cores: str = "big") -> None:
        """Sets the threads of this process's pool, up to the number of cores."""
        before = os.sched_getaffinity(0)
        tvm.get_global_func("runtime.config_threadpool")(CORES[cores], count)
        # TVM binds the calling thread to one core; threads that its owner starts would inherit it.
        os.sched_setaffinity(0, before)

    def free_arenas(self) -> None:
        """Frees idle arenas of this process, on all of its devices."""
        tvm.get_global_func(_FREE_ARENAS)()

    def available_bytes(self) -> int:
        """What this process may still take; a GPU does not say it."""
        if self.kind != CPU:
            raise _says_nothing(f"the {self.kind} device", self.name)
        try:
            return available_bytes()
        except OSError as error:
            raise _says_nothing(str(error), self.name) from error

    def info(self) -> dict[str, Any]:
        """This machine, which is real."""
        return {"emulated": False, "machine": platform.machine()}


@dataclass(frozen=True)
class RemoteSession:
    """A session on a device behind a tracker.

    Attributes:
        remote: TVM's session.
        kind: of the device there.
    """

    name: str
    remote: rpc.RPCSession
    kind: str = CPU
    is_local: ClassVar[bool] = False

    @property
    def device(self) -> Any:
        """TVM's device, on the other side."""
        return self.remote.device(*_DEVICES[self.kind])

    def on(self, kind: str) -> Session:
        """The same session with the first device of a kind there."""
        if kind == self.kind:
            return self
        _check_exists(found := replace(self, kind=kind))
        return found

    def load(self, library: Path) -> relax.VirtualMachine:
        """Uploads a library under a new name and loads it.

        Raises:
            DeviceError: the device refused it or went away.
        """
        member = f"odtc-{secrets.token_hex(8)}.so"
        self.free_arenas()
        with device_errors(self.name):
            self.remote.upload(str(library), member)
            return relax.VirtualMachine(self.remote.load_module(member), self.device)

    def fill(self, tensor: tvm.runtime.Tensor, parts: Iterable[np.ndarray]) -> None:
        """Sends a tensor as a whole: RPC copies to the beginning of a tensor only."""
        _send(tensor, parts)

    def use_threads(self, count: int, cores: str = "big") -> None:
        """Sets the threads of the device's pool."""
        with device_errors(self.name):
            self.remote.get_function("runtime.config_threadpool")(CORES[cores], count)

    def free_arenas(self) -> None:
        """Frees idle arenas of the server's process."""
        with device_errors(self.name):
            self.remote.get_function(_FREE_ARENAS)()

    def available_bytes(self) -> int:
        """TVM's RPC has no function that says it."""
        raise _says_nothing("TVM's RPC server", self.name)

    def info(self) -> dict[str, Any]:
        """What the device says of itself; one that says nothing is taken for real.

        Raises:
            DeviceError: the device went away, or what it says is not JSON.
        """
        with device_errors(self.name):
            try:
                describe = self.remote.get_function(_INFO)
            except AttributeError:
                return {"emulated": False}
            return {"emulated": False, **json.loads(str(describe()))}


def is_out_of_memory(error: Exception) -> bool:
    """Whether one of `FAILURES` says that something cannot be allocated."""
    return bool(_OUT_OF_MEMORY.search(str(error)))


def _says_nothing(what: str, where: str) -> DeviceError:
    return DeviceError(
        f"{what} does not say how much memory is left",
        where=where,
        hint="give a function that does as `available`, or a budget",
    )


def _check_exists(session: LocalSession | RemoteSession) -> None:
    with device_errors(session.name):
        exists = session.device.exist
    if not exists:
        raise DeviceError(
            f"{session.name} has no {session.kind} device",
            where=session.name,
            hint=f"install a driver for {session.kind}; on Linux, `{_LISTED_BY[session.kind]}` "
            "lists its devices",
        )


def _send(tensor: tvm.runtime.Tensor, parts: Iterable[np.ndarray]) -> None:
    whole = np.empty(tensor.shape, str(tensor.dtype))
    _write(whole, parts)
    tensor.copyfrom(whole)


def _write(array: np.ndarray, parts: Iterable[np.ndarray]) -> None:
    elements, first = array.reshape(-1), 0
    for part in parts:
        elements[first : first + part.size] = part
        first += part.size


def connect(url: str | None = None, session_seconds: int = SESSION_SECONDS) -> Session:
    """A session on this machine, or on the device that a tracker hands out.

    Args:
        url: `rpc://HOST:PORT/KEY` of a tracker and a device key; None is this machine.
        session_seconds: the device ends the session after this time.

    Raises:
        UsageError: the URL has another form.
        DeviceError: there is no tracker, or no device of that key within a few seconds.
    """
    if url is None:
        return LocalSession()
    match = _URL.fullmatch(url)
    if match is None or int(match["port"]) > _LAST_PORT:
        raise UsageError(
            f"{url!r} is not a device",
            hint="write rpc://HOST:PORT/KEY, such as rpc://127.0.0.1:9190/pixel",
        )
    try:
        _knock(match["host"], int(match["port"]))
        tracker = rpc.connect_tracker(match["host"], int(match["port"]))
    except (OSError, RuntimeError, OverflowError, UnicodeError) as error:
        raise DeviceError(
            f"no RPC tracker answers: {error}",
            where=url,
            hint="start the tracker, or check host and port",
        ) from error
    # A request for a key that nobody serves would block for ever.
    tracker._sock.settimeout(CONNECT_SECONDS)
    try:
        remote = tracker.request(match["key"], max_retry=1, session_timeout=session_seconds)
    except FAILURES as error:
        raise DeviceError(
            f"no free device {match['key']!r} within {CONNECT_SECONDS:.0f} s",
            where=url,
            hint="check that the device's server is registered at the tracker and not in use",
        ) from error
    return RemoteSession(url, remote)


def _knock(host: str, port: int) -> None:
    """Checks that a tracker answers: TVM would try for a minute, or wait without end."""
    magic = struct.pack("<i", RPC_TRACKER_MAGIC)
    with socket.create_connection((host, port), CONNECT_SECONDS) as knock:
        knock.sendall(magic)
        if knock.recv(len(magic)) != magic:
            raise OSError("what answers there is not a tracker")


@contextmanager
def device_errors(name: str) -> Iterator[None]:
    """TVM's failures become a device error that names the device."""
    try:
        yield
    except FAILURES as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        raise DeviceError(
            f"the device failed: {reason}",
            where=name,
            hint="check that the artifact fits the device, and that the device is still there",
        ) from error
