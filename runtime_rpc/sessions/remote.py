"""A session on a device behind a tracker.

TVM's tracker and server have neither authentication nor encryption: see docs/security.md.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tvm
from tvm import relax, rpc

from odtc.backends.targets import CPU
from odtc.core.errors import DeviceError, DeviceLostError
from odtc.core.found_gpu import FoundGpu
from odtc.core.options.cores import BIG, LITTLE, Speeds, cores_of_threads
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.fill import send_parts
from odtc.runtime_rpc.guards.failures import FAILURES, device_errors, explained
from odtc.runtime_rpc.guards.watchdog import Watchdog
from odtc.runtime_rpc.metrics.recorded import parsed, wanted
from odtc.runtime_rpc.metrics.sampling import PERIOD, Sampling, sampling
from odtc.runtime_rpc.server.measure.measuring import START_SAMPLING, STOP
from odtc.runtime_rpc.server.running import RUN_STEPS
from odtc.runtime_rpc.sessions.session import (
    FREE_ARENAS,
    Runner,
    Session,
    Write,
    says_nothing,
)
from odtc.runtime_rpc.tracker.told import told, understood

# Functions of odtc's server: JSON with `emulated` and `machine`; bytes of memory that are left; a
# tensor that is a file's pages; pages of an arena.
_INFO, _AVAILABLE = "odtc.device_info", "odtc.available_bytes"
_FILE_MEMORY, _PAGES = "odtc.file_memory", "odtc.pages"
# JSON of the cores' speeds by number; binding threads to cores, given as `4,5`.
_CORE_SPEEDS, _USE_CORES = "odtc.core_speeds", "odtc.use_cores"
# What TVM's own server can bind threads to: modes of `runtime.config_threadpool`.
_MODES = {None: 1, BIG: 1, LITTLE: -1}
# How a failure reads that is the connection's, or our server's word on its session.
_TOLD = "the session ended: "
_LOST = re.compile(
    rf"{_TOLD}|kShutdown|channel (is|has been) closed|Channel closes before|"
    r"[Cc]onnection (reset|refused|closed)|Broken pipe|RPCSessionTimeoutError"
)
# The connection ended where TVM waited for what a call returns, or for a tensor.
_ENDED = re.compile(r"== RPCCode::k(Return|CopyAck)\) is false")
# A library for another CPU: to run it again would not help.
_UNFIT = re.compile(r"ended by SIG(ILL|BUS|SEGV|FPE)")
_FULL = re.compile(r"No space left on device")


@dataclass(frozen=True)
class RemoteSession:
    """A session on a device behind a tracker.

    Attributes:
        remote: TVM's session.
        kind: of the device there.
        watchdog: ends calls that the device does not answer; None for a session without limits.
        serves_programs: whether the server is the native runtime's, which runs programs alone.
        recorded: the roots of samples that are being taken, by their numbers.
        functions: of the server, by name; see `function`.
    """

    name: str
    remote: rpc.RPCSession
    kind: str = CPU
    watchdog: Watchdog | None = None
    serves_programs: bool = False
    recorded: dict[int, str] = field(default_factory=dict, compare=False, repr=False)
    functions: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    is_local: ClassVar[bool] = False

    @property
    def device(self) -> Any:
        """TVM's CPU, on the other side."""
        return self.remote.cpu()

    def function(self, name: str) -> Any:
        """A function of the server, which is kept until the session goes.

        TVM tells the device of one that is dropped, and waits for its answer without letting any
        other thread of Python run: a device that froze just then would stop the watchdog, too.

        Raises:
            AttributeError: the server has none of that name.
        """
        if name not in self.functions:
            self.functions[name] = self.remote.get_function(name)
        return self.functions[name]

    def on(self, kind: str) -> Session:
        """The same session with the first device of a kind there."""
        if kind == self.kind:
            return self
        self._need_programs()
        # The program is refused there when it is opened, with what is missing.
        return replace(self, kind=kind)

    def gpu(self) -> FoundGpu:
        """The first device of the session's kind."""
        with self.guard():
            found = told(str(self.function("odtc.gpu")(self.kind)), self.name)
        with understood("the device", self.name):
            return FoundGpu(str(found["name"]), str(found["driver"]))

    @contextmanager
    def guard(self, runs: int = 1) -> Iterator[None]:
        """Within the block, a call has its limit, and failures say what became of the device."""
        if self.watchdog is None:
            with device_errors(self.name):
                yield
            return
        with self.watchdog.call(runs):
            try:
                yield
            except FAILURES as error:
                failure = self.watchdog.failure
                if not failure and _is_cut(error):
                    failure = self.watchdog.why_ended()
                raise _of_device(error, self.name, failure) from error

    def close(self) -> None:
        """Ends the session, whatever still refers to it; the device is free then."""
        if self.watchdog:
            self.watchdog.close()

    def load(self, library: Path) -> relax.VirtualMachine:
        """Uploads a library and loads it; errors as of `load_module`."""
        self._need_tvm("runs programs, and no virtual machine of TVM's")
        self.free_arenas()
        module = self.load_module(library)
        with self.guard():
            return relax.VirtualMachine(module, self.device)

    def load_module(self, library: Path) -> tvm.runtime.Module:
        """Uploads a library under a new name and loads it; its file goes once it is loaded.

        Raises:
            DeviceError: the device refused it.
            DeviceLostError: the device went away.
        """
        member = f"odtc-{secrets.token_hex(8)}.so"
        with self.guard():
            self.remote.upload(str(library), member)
            module = self.remote.load_module(member)
            self.remote.remove(member)
            return module

    def fill(self, tensor: tvm.runtime.Tensor, parts: Iterable[np.ndarray]) -> None:
        """Sends a tensor as a whole: RPC copies to the beginning of a tensor only."""
        send_parts(tensor, parts)

    def writer(self, tensor: tvm.runtime.Tensor) -> Write:
        """Sends all of it."""
        return tensor.copyfrom

    def number(self, scalar: tvm.runtime.Tensor) -> float:
        """One answer of the device."""
        return float(scalar.numpy())

    def runner(self) -> Runner | None:
        """Of servers, only odtc's has one."""
        with self.guard():
            try:
                return Runner(self.remote.cpu(), self.function(RUN_STEPS))
            except AttributeError:
                return None

    def core_speeds(self) -> Speeds | None:
        """Of servers, only odtc's says it."""
        with self.guard():
            try:
                speeds = self.function(_CORE_SPEEDS)
            except AttributeError:
                return None
            found = told(str(speeds()), self.name)
            with understood("the device", self.name):
                return {int(core): int(speed) for core, speed in found.items()}

    def _need_programs(self) -> None:
        """Refuses a GPU of another server than odtc-device.

        Raises:
            DeviceError: it is another one.
        """
        if not self.serves_programs:
            raise DeviceError(
                "its server drives no GPUs",
                where=self.name,
                hint="start odtc-device there, as `odtc device setup` does",
            )

    def _need_tvm(self, instead: str) -> None:
        """Refuses what needs TVM on the device, of a server that has none.

        Raises:
            DeviceError: it is such a server, which does something else instead.
        """
        if self.serves_programs:
            raise DeviceError(
                f"its server is odtc-device, which {instead}",
                where=self.name,
                hint="start the server in Python there, which has TVM: docs/phones.md",
            )

    def use_threads(self, count: int, cores: str | None = None) -> None:
        """Sets the threads of the device's pool; TVM's own server knows big and little only."""
        speeds = self.core_speeds()
        if speeds is None:
            self._use_mode(count, cores)
            return
        chosen = cores_of_threads(count, cores, speeds)
        with self.guard():
            use = self.function(_USE_CORES)
            use(",".join(map(str, chosen)), int(cores is not None))

    def _use_mode(self, count: int, cores: str | None) -> None:
        if cores not in _MODES:
            raise DeviceError(
                f"TVM's RPC server binds no threads to cores {cores}",
                where=self.name,
                hint="run odtc's server there, or give big or little",
            )
        with self.guard():
            self.function("runtime.config_threadpool")(_MODES[cores], count)

    def free_arenas(self) -> None:
        """Frees idle arenas of the server's process."""
        with self.guard():
            self.function(FREE_ARENAS)()

    def pages(self) -> Callable[[int], Any] | None:
        """Of servers, only odtc's has them."""
        with self.guard():
            try:
                return self.function(_PAGES)()
            except AttributeError:
                return None

    def file_memory(self, spec: TensorSpec, folder: str | None) -> tvm.runtime.Tensor:
        """Maps a file of the device, in the session's folder by default."""
        with self.guard():
            try:
                mapped = self.function(_FILE_MEMORY)
            except AttributeError:
                raise DeviceError(
                    f"TVM's RPC server maps no files, such as for {spec.name!r}",
                    where=self.name,
                    hint="run odtc's server there, or go without --offload and --offload-state",
                ) from None
            return mapped(json.dumps(spec.shape), spec.dtype, folder or "")

    def available_bytes(self) -> int:
        """Memory that the device has left; of servers, only odtc's says it."""
        with self.guard():
            try:
                available = self.function(_AVAILABLE)
            except AttributeError:
                raise says_nothing("TVM's RPC server", self.name) from None
            return int(available())

    def measure(self, name: str, *arguments: Any) -> Any:
        """Calls it in the session's process on the device; of servers, only odtc's has it."""
        if self.serves_programs and name in _RECORDED:
            return _RECORDED[name](self, *arguments)
        with self.guard():
            try:
                function = self.function(name)
            except AttributeError:
                raise DeviceError(
                    "TVM's RPC server cannot be measured",
                    where=self.name,
                    hint="start odtc's server there, as `odtc device setup` does",
                ) from None
            return function(*arguments)

    def _start_record(self, period: float, root: str) -> int:
        """Samples through the native runtime's server, which keeps what it reads as it is."""
        with self.guard():
            start = self.function("odtc.record.start")
            number = int(start(float(period), root, wanted()))
        self.recorded[number] = root
        return number

    def _stop_record(self, number: int) -> str:
        with self.guard():
            data = bytes(self.function("odtc.record.stop")(number))
        with understood("the device", self.name):
            return json.dumps(parsed(data, self.recorded.pop(number)))

    def sampling(self, period: float = PERIOD, root: str = "/") -> AbstractContextManager[Sampling]:
        """Samples the device, and the session's process there."""
        return sampling(self, period, root)

    def info(self) -> dict[str, Any]:
        """The device's description of itself; a device without one is taken for real.

        Raises:
            DeviceError: what it says is not JSON.
            DeviceLostError: the device went away.
        """
        with self.guard():
            try:
                describe = self.function(_INFO)
            except AttributeError:
                return {"emulated": False}
            return {"emulated": False, **told(str(describe()), self.name)}


# What the native runtime's server does otherwise than the one in Python.
_RECORDED: dict[str, Callable[..., Any]] = {
    START_SAMPLING: RemoteSession._start_record,
    STOP: RemoteSession._stop_record,
}


def _is_cut(error: Exception) -> bool:
    """Whether the connection ended, and nothing came that says why."""
    text = str(error)
    return _TOLD not in text and bool(_LOST.search(text) or _ENDED.search(text))


def _of_device(error: Exception, name: str, failure: str | None) -> DeviceError:
    """The error for a failure of TVM, in the watchdog's words if it has some."""
    reason = failure or (str(error).strip().splitlines() or [type(error).__name__])[-1]
    if _UNFIT.search(reason):
        return DeviceError(
            f"the device could not run the code: {reason}",
            where=name,
            hint="compile the model for its CPU; `odtc devices` says which it has",
        )
    if not failure and _ENDED.search(str(error)):
        failure = reason = "its connection ended in the middle of a call"
    if failure or _LOST.search(str(error)):
        return DeviceLostError(
            f"the device was lost: {reason}",
            where=name,
            hint="check the device and its cable; `odtc train --checkpoint` goes on by itself",
        )
    if _FULL.search(reason):
        return DeviceError(
            "the device's disk is full",
            where=name,
            hint="free space on the device; `odtc device doctor` says how much there is",
        )
    return explained(error, name)
