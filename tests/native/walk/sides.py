"""The three trainers of a walk: odtc's on TVM's virtual machine and in C, and the runtime alone."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import odtc
from benchmarks.virtual_machine import VirtualMachineHere
from odtc.core.errors import OdtcError
from odtc.runtime_rpc.native.binding import NativeTrainer
from odtc.runtime_rpc.native.interface import Code, NativeError
from odtc.runtime_rpc.state.parked import saved_arguments
from odtc.runtime_rpc.trainer import Trainer
from tests.native.parity import bits, feed, unpacked

# What a failure of the runtime is called by odtc's trainer.
KINDS = {
    Code.DATA: "DataError",
    Code.NOT_FINITE: "NumericError",
    Code.BUDGET: "BudgetError",
    Code.CANCELLED: "cancelled",
    Code.MISFIT: "ArtifactError",
    Code.DAMAGED: "ArtifactError",
}


class Side(Protocol):
    """A trainer: what it returns is compared with the others'."""

    name: str

    def step(self, x: Any, y: Any, lr: float) -> str:
        """Takes a step; the bits of its loss."""
        ...

    def evaluate(self, x: Any, output: str, ema: bool) -> bytes:
        """An output of a whole batch."""
        ...

    def tensors(self) -> dict[str, bytes]:
        """All that a checkpoint holds now."""
        ...

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Gives weights other values."""
        ...

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        ...

    def load(self, path: Path) -> None:
        """Takes one up."""
        ...

    def set_budget(self, nbytes: int) -> None:
        """Changes the plan."""
        ...

    def use_threads(self, count: int) -> None:
        """Changes the number of threads."""
        ...

    def reopen(self) -> None:
        """Begins anew, as after a restart of the process."""
        ...

    def close(self) -> None:
        """Ends the trainer."""
        ...

    @property
    def steps(self) -> int:
        """Number of steps."""
        ...


class OfPython:
    """odtc's trainer, on either engine."""

    def __init__(self, name: str, make: Callable[[], Trainer]) -> None:
        self.name, self._make = name, make
        self.trainer = make()

    def step(self, x: Any, y: Any, lr: float) -> str:
        """Takes a step; the bits of its loss."""
        return bits(self.trainer.step(x, y, lr=lr))

    def evaluate(self, x: Any, output: str, ema: bool) -> bytes:
        """An output of any number of samples."""
        return self.trainer.evaluate(x, output, ema=ema).tobytes()

    def tensors(self) -> dict[str, bytes]:
        """All that a checkpoint holds now: between two updates the sums of gradients, too."""
        items = saved_arguments(self.trainer._manifest, self.steps)
        found = self.trainer._engine.read(items)
        return {f"{item.role} {item.spec.name}": found[item].tobytes() for item in items}

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Gives weights other values."""
        self.trainer.set_parameters(values)

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        self.trainer.save_checkpoint(path)

    def load(self, path: Path) -> None:
        """Takes one up."""
        self.trainer.load_checkpoint(path)

    def set_budget(self, nbytes: int) -> None:
        """Changes the plan."""
        self.trainer.set_budget(nbytes)

    def use_threads(self, count: int) -> None:
        """Changes the number of threads, of which there is at most one for each core."""
        self.trainer.use_threads(min(count, 2))

    def reopen(self) -> None:
        """Begins anew."""
        self.close()
        self.trainer = self._make()

    def close(self) -> None:
        """Ends the trainer."""
        self.trainer.close()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.trainer.steps


class InC:
    """The runtime through ctypes, on a copy of the library."""

    name = "C"

    def __init__(self, artifact: odtc.Artifact, folder: Path, offloaded: int) -> None:
        self._manifest = artifact.manifest
        self._members, self._folder = unpacked(artifact, folder / "members"), folder
        self._offloaded = offloaded
        self.native = self._made()

    def _made(self) -> NativeTrainer:
        return NativeTrainer(self._members, 1, self._folder, offload_state=self._offloaded)

    def step(self, x: Any, y: Any, lr: float) -> str:
        """Takes a step; the bits of its loss."""
        feed(self.native, self._manifest, x, y)
        return bits(self.native.step(lr))

    def evaluate(self, x: Any, output: str, ema: bool) -> bytes:
        """An output of a whole batch."""
        feed(self.native, self._manifest, x)
        return self.native.evaluate(output, ema=ema).tobytes()

    def tensors(self) -> dict[str, bytes]:
        """All that a checkpoint holds now."""
        found = self.native.tensors
        items = saved_arguments(self._manifest, self.steps)
        return {
            f"{item.role} {item.spec.name}": found[item.role.value, item.spec.name].tobytes()
            for item in items
        }

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Gives weights other values."""
        for (role, name), tensor in self.native.tensors.items():
            if name in values and role in ("parameter", "frozen", "statistic"):
                tensor[...] = values[name]

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        self.native.save_checkpoint(path)

    def load(self, path: Path) -> None:
        """Takes one up."""
        self.native.load_checkpoint(path)

    def set_budget(self, nbytes: int) -> None:
        """Changes the plan."""
        self.native.set_budget(nbytes)

    def use_threads(self, count: int) -> None:
        """Changes the number of threads."""
        self.native.use_threads(count)

    def reopen(self) -> None:
        """Begins anew."""
        self.close()
        self.native = self._made()

    def close(self) -> None:
        """Ends the trainer."""
        self.native.close()

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.native.steps


def sides_of(artifact: odtc.Artifact, folder: Path, *, offload_state: bool) -> list[Side]:
    """All three, at their start."""
    here = VirtualMachineHere()
    more = {"storage": folder, "offload_state": offload_state}
    return [
        OfPython("TVM", lambda: artifact.trainer(here, threads=1, storage=folder)),
        OfPython("Python", lambda: artifact.trainer(threads=1, **more)),
        InC(artifact, folder, int(offload_state)),
    ]


def result_of(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of its error."""
    try:
        return call()
    except NativeError as error:
        return KINDS.get(Code(error.code), f"{error.code} {error}")
    except OdtcError as error:
        return type(error).__name__
