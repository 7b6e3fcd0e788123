"""This machine as a device that runs a step.

TVM is imported by what needs it: the native runtime takes steps here without it.
"""

import os
import platform
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from odtc.backends.targets import CPU
from odtc.core.disk.files import cache_folder, check_programs
from odtc.core.errors import BuildError, OutputError
from odtc.core.found_gpu import FoundGpu
from odtc.core.options.cores import Speeds, cores_of_threads
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.fill import write_parts
from odtc.runtime_rpc.free_memory import available_bytes
from odtc.runtime_rpc.guards.failures import device_errors
from odtc.runtime_rpc.metrics.sampling import PERIOD, Sampling, sampling
from odtc.runtime_rpc.native.interface import NativeError
from odtc.runtime_rpc.native.on_gpu import find_gpu
from odtc.runtime_rpc.server.cores import core_speeds, use_cores
from odtc.runtime_rpc.server.measure.measuring import FUNCTIONS
from odtc.runtime_rpc.sessions.on_core import on_core
from odtc.runtime_rpc.sessions.session import (
    FREE_ARENAS,
    Session,
    Write,
    no_gpu,
    says_nothing,
)

if TYPE_CHECKING:
    import tvm
    from tvm import relax

# The core that TVM's pool of a thread has it on while it computes; a thread has a pool of its own.
_bound = threading.local()


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
    def serves_programs(self) -> bool:
        """This process has all of odtc."""
        return False

    @property
    def device(self) -> Any:
        """TVM's CPU: GPUs are the native runtime's alone."""
        import tvm

        return tvm.cpu()

    @property
    def runs_programs(self) -> bool:
        """Whether the native runtime may take the steps here."""
        return True

    def on(self, kind: str) -> Session:
        """This process with its first device of a kind; GPUs come before others."""
        if kind == self.kind:
            return self
        found = replace(self, kind=kind)
        if kind != CPU:
            found.gpu()
        return found

    def gpu(self) -> FoundGpu:
        """The first device of the session's kind; GPUs come before others."""
        try:
            return find_gpu(self.kind)
        except NativeError as error:
            raise no_gpu(self.kind, self.name, error) from error
        except OSError as error:
            raise BuildError(f"the native runtime cannot be loaded: {error}") from error

    def guard(self, runs: int = 1) -> AbstractContextManager[None]:
        """TVM's failures become device errors; the caller is on its core, where one was chosen."""
        core = getattr(_bound, "core", None)
        return device_errors(self.name) if core is None else on_core(core, self.name)

    def close(self) -> None:
        """Nobody else waits for this process."""

    def load(self, library: Path) -> "relax.VirtualMachine":
        """Loads a library into this process; errors as of `load_module`."""
        from tvm import relax

        self.free_arenas()
        module = self.load_module(library)
        with device_errors(self.name):
            return relax.VirtualMachine(module, self.device)

    def load_module(self, library: Path) -> "tvm.runtime.Module":
        """Loads a library into this process.

        Raises:
            DeviceError: it was compiled for another kind of machine.
            OutputError: libraries cannot be loaded from the folder that it lies in.
        """
        import tvm_ffi

        check_programs(library.parent)
        # TVM's pool is made at the first parallel kernel, on x86 for half of the logical cores.
        os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))
        with device_errors(self.name):
            # TVM would keep each for ever.
            return tvm_ffi.load_module(str(library), keep_module_alive=False)

    def fill(self, tensor: "tvm.runtime.Tensor", parts: Iterable[np.ndarray]) -> None:
        """Writes the parts where they belong, so that only one of them is in memory twice."""
        write_parts(np.from_dlpack(tensor), parts)

    def writer(self, tensor: "tvm.runtime.Tensor") -> Write:
        """Into its memory: TVM's own copy takes several microseconds of Python."""
        return partial(np.from_dlpack(tensor).__setitem__, ...)

    def number(self, scalar: "tvm.runtime.Tensor") -> float:
        """Out of its memory, for the same reason."""
        return float(np.from_dlpack(scalar))

    def runner(self) -> None:
        """A call of this process crosses no link."""

    def core_speeds(self) -> Speeds:
        """Of the cores that this process may use."""
        return core_speeds()

    def use_threads(self, count: int, cores: str | None = None) -> None:
        """Sets the threads of this process's pool, up to the number of cores."""
        chosen = cores_of_threads(count, cores, core_speeds())
        before = os.sched_getaffinity(0)
        use_cores(chosen, bind_caller=False)
        # TVM binds the calling thread, and threads that its owner starts would inherit that: it is
        # bound within `guard` only.
        os.sched_setaffinity(0, before)
        _bound.core = chosen[0] if cores else None

    def free_arenas(self) -> None:
        """Frees idle arenas of this process, on all of its devices."""
        import tvm

        tvm.get_global_func(FREE_ARENAS)()

    def pages(self) -> Callable[[int], Any] | None:
        """Of this process."""
        from odtc.runtime_rpc.pages import Pages

        return Pages()

    def file_memory(self, spec: TensorSpec, folder: str | None) -> "tvm.runtime.Tensor":
        """Maps a file of this machine, in the user's cache by default."""
        from odtc.runtime_rpc.file_memory import file_memory

        path = Path(folder) if folder else cache_folder() / "storage"
        try:
            return file_memory(spec.shape, spec.dtype, path)
        except OSError as error:
            raise OutputError(
                f"no file of {spec.nbytes:,} bytes for {spec.name!r}: {error.strerror or error}",
                where=str(path),
                hint="free some space there, or name another folder with --storage",
            ) from error

    def available_bytes(self) -> int:
        """The bytes that this process may still take; a GPU does not say it."""
        if self.kind != CPU:
            raise says_nothing(f"the {self.kind} device", self.name)
        try:
            return available_bytes()
        except OSError as error:
            raise says_nothing(str(error), self.name) from error

    def measure(self, name: str, *arguments: Any) -> Any:
        """Calls it in this process."""
        with self.guard():
            return FUNCTIONS[name](*arguments)

    def sampling(self, period: float = PERIOD, root: str = "/") -> AbstractContextManager[Sampling]:
        """Samples this machine, and this process."""
        return sampling(self, period, root)

    def info(self) -> dict[str, Any]:
        """This machine, which is real."""
        return {"emulated": False, "machine": platform.machine()}


def gpu_here(kind: str) -> FoundGpu:
    """The first GPU of this machine that is of a kind; errors as of `Session.gpu`."""
    return LocalSession(kind=kind).gpu()
