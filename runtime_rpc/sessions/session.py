"""What a device that runs a step can do; `local` has this machine, `remote` the others.

TVM is imported by what needs it: the native runtime takes steps here without it.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from odtc.backends.targets import CPU
from odtc.core.errors import DeviceError
from odtc.core.found_gpu import FoundGpu
from odtc.core.options.cores import Speeds
from odtc.core.specs import TensorSpec
from odtc.runtime_rpc.metrics.sampling import PERIOD, Sampling

if TYPE_CHECKING:
    import tvm
    from tvm import relax

# The virtual machine keeps the arenas of steps that nobody will run again, for others of that size.
FREE_ARENAS = "vm.builtin.memory_manager.clear"
# Kinds of targets -> what such a device is called.
DEVICES = {CPU: "cpu", "opencl": "opencl", "vulkan": "vulkan"}
# Takes an array of numpy's, whose elements a tensor then has.
Write = Callable[[Any], Any]
# What lists such devices on Linux.
_LISTED_BY = {"opencl": "clinfo -l", "vulkan": "vulkaninfo --summary"}


@dataclass(frozen=True)
class Runner:
    """Runs a step several times in one call.

    Attributes:
        memory: TVM's device of the stacks that it feeds the step from.
        run: see `odtc.runtime_rpc.server.running.run_steps`.
    """

    memory: Any
    run: Callable[..., Any]


class Session(Protocol):
    """Somewhere that a step can run.

    Attributes:
        is_local: whether it is this process.
    """

    is_local: ClassVar[bool]

    @property
    def serves_programs(self) -> bool:
        """Whether it is a server of the native runtime, without TVM; then it has a `remote`."""
        ...

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def kind(self) -> str:
        """Of its device: see `on`."""
        ...

    @property
    def device(self) -> Any:
        """TVM's CPU there."""
        ...

    def on(self, kind: str) -> "Session":
        """The same place, with the first device of a kind: of a target's, see `Target`.

        Raises:
            BuildError: what drives such devices cannot be built here.
            DeviceError: there is none.
        """
        ...

    def gpu(self) -> FoundGpu:
        """The session's GPU; its `kind` is that of one.

        Raises:
            BuildError: what drives such devices cannot be built here.
            DeviceError: there is none, or its server does not say.
        """
        ...

    def guard(self, runs: int = 1) -> AbstractContextManager[None]:
        """A block in which TVM's failures become device errors; a call in it has its limit.

        Args:
            runs: how many times that limit, for as many runs of a step.

        Raises:
            DeviceLostError: the device went away, or took too long.
            DeviceError: it failed otherwise.
        """
        ...

    def close(self) -> None:
        """Ends the session, so that others can have the device; nothing works in it any more."""
        ...

    def load(self, library: Path) -> "relax.VirtualMachine":
        """Loads a library on the device, frees idle arenas there, and starts a virtual machine."""
        ...

    def load_module(self, library: Path) -> "tvm.runtime.Module":
        """Loads a library on the device, whose kernels are then called one by one."""
        ...

    def fill(self, tensor: "tvm.runtime.Tensor", parts: Iterable[np.ndarray]) -> None:
        """Gives a tensor of this device its elements, in flat parts that follow each other."""
        ...

    def writer(self, tensor: "tvm.runtime.Tensor") -> Write:
        """A function that gives a tensor its elements, of its shape and dtype."""
        ...

    def number(self, scalar: "tvm.runtime.Tensor") -> float:
        """The element of a tensor of shape `()`; a device is waited for."""
        ...

    def runner(self) -> Runner | None:
        """A function that runs several steps; None where calls of this process are no slower."""
        ...

    def core_speeds(self) -> Speeds | None:
        """The highest frequency of each core, in kHz, or 0; None where the device does not say."""
        ...

    def use_threads(self, count: int, cores: str | None = None) -> None:
        """Sets the number of worker threads, and binds each to a core of its own.

        Args:
            count: of threads; 0 for as many as there are such cores.
            cores: `big`, `little`, `all`, or numbers such as `4,5`; None for the fastest first, to
                which the calling thread stays unbound.

        Raises:
            UsageError: the device has no such core, or fewer than threads.
            DeviceError: its server binds no threads to such cores.
        """
        ...

    def free_arenas(self) -> None:
        """Gives back the memory that the device keeps for steps to come."""
        ...

    def pages(self) -> Callable[[int], Any] | None:
        """Memory for one arena, that changes its size; see `odtc.runtime_rpc.pages.Pages`.

        None where the device has no such memory: there a library allocates its own.
        """
        ...

    def file_memory(self, spec: TensorSpec, folder: str | None) -> "tvm.runtime.Tensor":
        """A tensor whose pages are those of a file without a name.

        Args:
            spec: of the tensor.
            folder: of the device, that it lies in; one of odtc's if None.

        Raises:
            OutputError: this machine has no room there, or it cannot be written.
            DeviceError: the same of another device, or it has no such memory.
        """
        ...

    def available_bytes(self) -> int:
        """Bytes of memory that a step could still take.

        Raises:
            DeviceError: the device does not say.
        """
        ...

    def measure(self, name: str, *arguments: Any) -> Any:
        """Calls one of the functions that the device's process is measured by.

        Args:
            name: of those in `odtc.runtime_rpc.server.measure.measuring`.
            arguments: numbers, texts and modules.

        Raises:
            DeviceError: its server has no such function, or it failed.
        """
        ...

    def sampling(self, period: float = PERIOD, root: str = "/") -> AbstractContextManager[Sampling]:
        """A block in which the device is sampled; see `odtc.runtime_rpc.metrics.sampling`."""
        ...

    def info(self) -> dict[str, Any]:
        """The device's description of itself.

        Returns:
            `emulated`: whether its times mean nothing. `machine`, where it is known: the
            architecture, as `uname -m` has it.
        """
        ...


def says_nothing(what: str, where: str) -> DeviceError:
    """The error of a device that does not know its memory."""
    return DeviceError(
        f"{what} does not say how much memory is left",
        where=where,
        hint="give a function that works like `available`, or a budget",
    )


def no_gpu(kind: str, where: str, why: object) -> DeviceError:
    """The error where there is no GPU of a kind."""
    return DeviceError(
        f"{where} has no {kind} device: {why}",
        where=where,
        hint=f"install a driver for {kind}; on Linux, `{_LISTED_BY[kind]}` lists its devices",
    )
