"""Where kernels are measured: in a process of this machine, or in sessions on a device."""

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from odtc.autoschedule.tuning.measure import MeasureConfig, MeasureInput, MeasureResult, measure
from odtc.autoschedule.tuning.running import KernelBench
from odtc.autoschedule.tuning.workers import Failed, Workers
from odtc.backends.targets import CPU
from odtc.core.errors import DeviceError, DeviceLostError
from odtc.runtime_rpc.kernels.opening import kernels_on
from odtc.runtime_rpc.sessions.local import LocalSession
from odtc.runtime_rpc.sessions.session import Session

# Seconds in which some kernels are measured on this machine, and a sample is taken on a device: a
# kernel that takes longer hangs.
MEASURE_SECONDS = 120.0
# Waits until the device of a session is cool enough.
Cool = Callable[[Session], object]


def never(_: Session) -> None:
    """Waits for nothing."""


class Bench(Protocol):
    """Measures choices, one kernel after the other."""

    def __call__(self, subject: MeasureInput, config: MeasureConfig) -> list[MeasureResult]:
        """The outcome of each choice.

        Raises:
            DeviceLostError: there will be no more of this one.
        """
        ...

    def close(self) -> None:
        """Gives the device back."""
        ...


class HostBench:
    """This machine: kernels run in a process of their own, which one of them may end.

    Args:
        kind: of the target.
        threads: of the process, on a CPU.
        cool: waits before each subject, where the machine may be too hot.
    """

    def __init__(self, kind: str, threads: int, cool: Cool = never) -> None:
        start = functools.partial(_local_bench, kind, threads)
        self._workers, self._cool = Workers(start, 1, MEASURE_SECONDS), cool

    def __call__(self, subject: MeasureInput, config: MeasureConfig) -> list[MeasureResult]:
        """Measures all choices at once, or one by one where one of them ends the process."""
        self._cool(LocalSession())
        (answer,) = self._workers.all([(subject, config)])
        if not isinstance(answer, Failed):
            return answer
        if len(subject.others) == 1:
            return [MeasureResult(reason=answer.reason)]
        return [self(each, config)[0] for each in _singles(subject)]

    def close(self) -> None:
        """Ends the process."""
        self._workers.close()


def _local_bench(
    kind: str, threads: int
) -> Callable[[tuple[MeasureInput, MeasureConfig]], list[MeasureResult]]:
    session = LocalSession().on(kind)
    if kind == CPU:
        session.use_threads(threads)
    return lambda request: measure(_bench(session), *request)


def _bench(session: Session) -> KernelBench:
    return KernelBench(session, functools.partial(kernels_on, session))


class DeviceBench:
    """A device behind a tracker.

    Args:
        open_: makes a session on it, of the kind that kernels are for, with a limit to its calls.
        threads: that kernels of a CPU run with.
        cool: waits before each subject, where the device may be too hot.
    """

    def __init__(self, open_: Callable[[], Session], threads: int, cool: Cool = never) -> None:
        self._open, self._threads, self._cool = open_, threads, cool
        self._session: Session | None = None

    def __call__(self, subject: MeasureInput, config: MeasureConfig) -> list[MeasureResult]:
        """Measures all choices in one session, or each in its own where one of them ends it."""
        try:
            session = self._opened()
            self._cool(session)
            return measure(_bench(session), subject, config)
        except DeviceError as error:
            self.close()
            if len(subject.others) == 1:
                # A device that answers is not lost: the kernel is what ended its session.
                self._opened()
                return [MeasureResult(reason=str(error).splitlines()[0])]
        return [self(each, config)[0] for each in _singles(subject)]

    def _opened(self) -> Session:
        if self._session is None:
            try:
                self._session = self._open()
                if self._session.kind == CPU:
                    self._session.use_threads(self._threads)
            except DeviceError as error:
                raise DeviceLostError(error.what, where=error.where, hint=error.hint) from error
        return self._session

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None:
            with suppress(DeviceError):
                self._session.close()
            self._session = None


def _singles(subject: MeasureInput) -> list[MeasureInput]:
    return [MeasureInput(subject.usual, (each,), subject.inputs) for each in subject.others]
