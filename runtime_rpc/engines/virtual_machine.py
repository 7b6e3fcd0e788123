"""TVM's virtual machine as an engine: on the CPU of this machine, or of a device behind RPC."""

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from odtc.backends.compiled_for import target_of
from odtc.core.artifact.bundle import LIBRARY, Bundle
from odtc.core.artifact.manifest import Evaluation, StepPlan
from odtc.core.disk.left_behind import temporary_folder
from odtc.core.errors import DeviceError
from odtc.core.specs import WEIGHT_ROLES, Argument
from odtc.runtime_rpc.engines.engine import Instead, Ready
from odtc.runtime_rpc.feed.batches import Fed
from odtc.runtime_rpc.fit import check_features
from odtc.runtime_rpc.memory.allocation import Placement, allocate
from odtc.runtime_rpc.memory.plans import Available
from odtc.runtime_rpc.profile.host_clock import HostClock
from odtc.runtime_rpc.profile.launches import Launches
from odtc.runtime_rpc.server.measure.measuring import START_CLOCK, STOP
from odtc.runtime_rpc.sessions.session import Session
from odtc.runtime_rpc.stepping import Stepping
from odtc.runtime_rpc.tracker.told import told


class VirtualMachine:
    """The step in TVM's virtual machine, called with tensors of the device.

    Args and errors are those of `engine_of`.
    """

    def __init__(
        self, bundle: Bundle, session: Session, placement: Placement, host: HostClock
    ) -> None:
        check_features(session, bundle.manifest, target_of(bundle.manifest))
        self._manifest, self._session = bundle.manifest, session
        self._machine = machine = _loaded(bundle, session)
        with session.guard():
            self._tensors = allocate(bundle, session, placement)
            self._stepping = Stepping(bundle.manifest, session, machine, host, self._tensors)
            self._functions = {
                each: machine[each.function]
                for usual in bundle.manifest.evaluations
                for each in (usual, *usual.smaller)
            }
        if not session.is_local:
            weakref.finalize(self, _wait_for, session).atexit = False

    @property
    def plan(self) -> StepPlan:
        """By which the last step ran, or the next one will."""
        return self._stepping.calls.plan

    @property
    def over_features(self) -> None:
        """None: the whole step is computed at each step."""
        return None

    def use_threads(self, count: int | None, cores: str | None) -> None:
        """Sets the threads of the calling thread's pool."""
        if count is not None:
            self._session.use_threads(count, cores)

    def at_once(self, steps: int) -> int:
        """How many steps of so many one call can take."""
        return self._stepping.at_once(steps)

    def take(
        self, steps: Sequence[Ready], first: int, following: Callable[[], Fed | None]
    ) -> list[float]:
        """Takes steps; several of them are one call."""
        return self._stepping.take([(fed.parts, rate) for fed, rate in steps], first)

    def evaluate(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray], instead: Instead
    ) -> np.ndarray:
        """An output of one micro-batch, or of as many samples as the evaluation is of."""
        weights = self._manifest.of_role(*WEIGHT_ROLES)
        arguments = [*arrays, *(instead.get(item.spec.name, item) for item in weights)]
        with self._session.guard():
            tensors = {**self._tensors, **self._put(evaluation, arrays)}
            return self._functions[evaluation](*(tensors[i] for i in arguments)).numpy()

    def _put(
        self, evaluation: Evaluation, arrays: Mapping[Argument, np.ndarray]
    ) -> dict[Argument, Any]:
        if evaluation in self._manifest.evaluations:
            return self._stepping.feeder.put(arrays)
        # Of fewer samples than the tensors that a step is fed from.
        device = self._session.device
        return {item: tvm.runtime.tensor(array, device) for item, array in arrays.items()}

    def read(self, items: Iterable[Argument]) -> dict[Argument, np.ndarray]:
        """Copies of tensors as they are now."""
        with self._session.guard():
            return {item: self._tensors[item].numpy() for item in items}

    def write(self, values: Mapping[Argument, np.ndarray]) -> None:
        """Gives tensors other elements."""
        with self._session.guard():
            for item, value in values.items():
                self._tensors[item].copyfrom(value)

    def restart(self, steps: int) -> None:
        """Nothing to do: each call is told its number."""

    def set_budget(self, budget: int) -> None:
        """Takes steps from now on by the fastest plan that fits."""
        self._stepping.calls.set_budget(budget)

    def follow(self, available: Available, reserve: int) -> None:
        """Chooses the plan before each step."""
        self._stepping.calls.follow(available, reserve)

    @contextmanager
    def clocked(self) -> Iterator[dict[str, Any]]:
        """A block in which each call is timed by the process that makes it."""
        number = self._session.measure(START_CLOCK, self._machine.module)
        found: dict[str, Any] = {}
        try:
            yield found
        except BaseException:
            # What went wrong in the block is what counts.
            with suppress(DeviceError):
                self._session.measure(STOP, number)
            raise
        found |= told(str(self._session.measure(STOP, number)), self._session.name)

    def launches(self) -> Launches:
        """TVM does not say it."""
        return {}

    def close(self) -> None:
        """Gives all memory back."""
        self._tensors.clear()
        del self._stepping, self._functions, self._machine


def _wait_for(session: Session) -> None:
    """Waits for an answer of the device, in front of those to all that goes with an engine.

    For these TVM waits while no other thread of Python runs: a device that is frozen is to be found
    lost before.
    """
    with suppress(DeviceError):
        session.info()


def _loaded(bundle: Bundle, session: Session) -> relax.VirtualMachine:
    """The library on the device; here, a copy of it that is TVM's own.

    Kernels call what their library says, which is one place for a process: a trainer of the native
    runtime may have loaded the artifact's.
    """
    if not session.is_local:
        return session.load(bundle.library)
    with temporary_folder() as folder:
        return session.load(Path(shutil.copy(bundle.library, folder / LIBRARY)))
