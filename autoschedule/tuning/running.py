"""Kernels that are loaded to be measured: on CPUs by themselves, on GPUs as programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np
import tvm
from tvm import relax

from odtc.autoschedule.tuning.build import KERNEL, MAIN, KernelLibrary
from odtc.backends.program.kernels import ARGUMENT
from odtc.backends.program.lines import Operand, Region
from odtc.backends.program.running import KernelProgram, OpenKernels
from odtc.core.specs import TensorSpec

# Bytes that a CPU copies before a call, so that nothing else is near its cores: as much as their
# caches have, but for those that many cores share.
FLUSHED = 1 << 22


class KernelSession(Protocol):
    """A session in which kernels run: of this process or of a device."""

    @property
    def device(self) -> Any:
        """TVM's device."""
        ...

    @property
    def serves_programs(self) -> bool:
        """Whether the native runtime calls kernels there, and no virtual machine."""
        ...

    def load(self, library: Path) -> relax.VirtualMachine:
        """Loads a library there, and starts a virtual machine."""
        ...

    def load_module(self, library: Path) -> tvm.runtime.Module:
        """Loads a library there."""
        ...

    def guard(self) -> AbstractContextManager[None]:
        """Within the block, failures report the state of the device."""
        ...


@dataclass(frozen=True)
class KernelBench:
    """Where kernels are measured.

    Attributes:
        session: there.
        programs: makes a block in which programs of kernels are opened on its GPU, all with the
            arguments of those names.
    """

    session: KernelSession
    programs: Callable[[Mapping[str, np.ndarray]], AbstractContextManager[OpenKernels]]


class Kernel(Protocol):
    """A kernel that is loaded, with its arguments."""

    def value(self) -> np.ndarray:
        """Runs it and returns its result."""
        ...

    def seconds(self, calls: int) -> float:
        """Of a call, by the median of so many."""
        ...


# Loads a kernel for as long as a block runs.
Load = Callable[[KernelLibrary], AbstractContextManager[Kernel]]


def loading(
    bench: KernelBench, library: KernelLibrary, arrays: Sequence[np.ndarray]
) -> AbstractContextManager[Load]:
    """A block in which a kernel, and others like it, are loaded with the same arguments.

    Raises:
        DeviceError: the device is gone.
    """
    return _as_programs(bench, arrays) if library.program else _on_cpu(bench.session, arrays)


@contextmanager
def _as_programs(bench: KernelBench, arrays: Sequence[np.ndarray]) -> Iterator[Load]:
    arguments = {f"{ARGUMENT}{number}": array for number, array in enumerate(arrays)}

    with bench.programs(arguments) as opened:

        @contextmanager
        def load(library: KernelLibrary) -> Iterator[Kernel]:
            assert library.program
            result = _result(library.operands)
            of = TensorSpec("", result.shape, result.dtype)
            with opened(library.program, library.path, of) as program:
                yield _OfProgram(program)

        yield load


@dataclass(frozen=True)
class _OfProgram:
    """A kernel of a GPU."""

    program: KernelProgram

    def value(self) -> np.ndarray:
        """Runs it and returns its result."""
        return self.program.result()

    def seconds(self, calls: int) -> float:
        """Of a call, as the device takes the time."""
        return median(self.program.seconds(calls))


@contextmanager
def _on_cpu(session: KernelSession, arrays: Sequence[np.ndarray]) -> Iterator[Load]:
    with session.guard():
        arguments = [tvm.runtime.tensor(array, session.device) for array in arrays]

    @contextmanager
    def load(library: KernelLibrary) -> Iterator[Kernel]:
        load = _alone if session.serves_programs else _in_machine
        yield _OfCpu(session, load(session, library, arguments))

    yield load


@dataclass(frozen=True)
class _Loaded:
    """A function of a library, and what it is called with.

    Attributes:
        module: that has it.
        name: of it.
        operands: tensors.
        result: the one that it writes; None where it returns that.
    """

    module: tvm.runtime.Module
    name: str
    operands: Sequence[Any]
    result: Any = None


def _in_machine(
    session: KernelSession, library: KernelLibrary, arguments: Sequence[Any]
) -> _Loaded:
    """On TVM's virtual machine, which has the plan."""
    return _Loaded(session.load(library.path).module, MAIN, arguments)


def _alone(session: KernelSession, library: KernelLibrary, arguments: Sequence[Any]) -> _Loaded:
    """The kernel by itself, with memory for what it writes: it all is in use at once."""
    module = session.load_module(library.path)
    with session.guard():
        memory = {
            operand: tvm.runtime.empty(operand.shape, operand.dtype, session.device)
            for operand in library.operands
            if operand.region is not Region.ARGUMENT
        }
    operands = [memory.get(each, arguments[each.number]) for each in library.operands]
    return _Loaded(module, KERNEL, operands, memory[_result(library.operands)])


def _result(operands: Sequence[Operand]) -> Operand:
    (found,) = (each for each in operands if each.region is Region.RESULT)
    return found


class _OfCpu:
    """A kernel of a CPU, whose caches are emptied before each call that is timed."""

    def __init__(self, session: KernelSession, loaded: _Loaded) -> None:
        self._session, self._loaded = session, loaded
        # Kept: a device is asked for one, and told when it is dropped.
        self._evaluator = cache(self._evaluator_of)

    def value(self) -> np.ndarray:
        """Runs it and returns its result."""
        loaded = self._loaded
        with self._session.guard():
            returned = loaded.module[loaded.name](*loaded.operands)
            return (returned if loaded.result is None else loaded.result).numpy()

    def seconds(self, calls: int) -> float:
        """Of a call, each by itself."""
        with self._session.guard():
            return float(self._evaluator(calls)(*self._loaded.operands).median)

    def _evaluator_of(self, calls: int) -> Any:
        loaded = self._loaded
        return loaded.module.time_evaluator(
            loaded.name, self._session.device, 1, calls, cache_flush_bytes=FLUSHED
        )
