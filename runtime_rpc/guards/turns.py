"""The threads of a process use a trainer one at a time, and leave no threads of the system behind.

TVM keeps a pool of threads for each thread that calls it, and never ends one. So calls from other
threads than the main one are made by a single thread, which all trainers of the process share. A
process that was forked has none of these threads: a call there would wait for ever.
"""

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from odtc.core.errors import UsageError
from odtc.runtime_rpc.guards.caller import Caller

P = ParamSpec("P")
R = TypeVar("R")

_SPAWN = "make it in the process that uses it; with multiprocessing, in one that 'spawn' starts"


class _Process:
    """The state that the trainers of a process share.

    Attributes:
        pid: of the process in which the first trainer was made; None before that.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._lock = threading.Lock()
        self._caller: Caller | None = None

    def check(self) -> None:
        """Checks that this is the process in which steps are taken.

        Raises:
            UsageError: it was forked from that.
        """
        if self.pid is None:
            self.pid = os.getpid()
        elif self.pid != os.getpid():
            raise UsageError(
                "this process was forked from one that used a trainer, and has none of its threads",
                where=f"process {os.getpid()}",
                hint=_SPAWN,
            )

    def call(self, function: Callable[[], R]) -> R:
        """Calls a function in the main thread, if this is it, or in the one for all others."""
        here = threading.current_thread()
        if here is threading.main_thread() or here.name.startswith(_NAME):
            return function()
        with self._lock:
            if self._caller is None:
                self._caller = Caller(_NAME)
        return self._caller.call(function)


_NAME = "odtc-steps"
_PROCESS = _Process()


def made_alone(make: Callable[[], R]) -> R:
    """Makes a trainer in a thread that may take its steps.

    Raises:
        UsageError: the process was forked from one that used a trainer.
    """
    _PROCESS.check()
    return _PROCESS.call(make)


class Turns:
    """Of one trainer: who has it. It holds nothing of the trainer, which goes when it is dropped.

    Attributes:
        is_over: whether it is closed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._last = threading.get_ident()
        self._steps = False
        self.is_over = False

    def end(self) -> bool:
        """Lets nobody have the trainer any more, once it is free; whether anybody could before.

        Raises:
            UsageError: it is at work in this very thread, which would wait for itself for ever.
        """
        if self._holder == threading.get_ident():
            raise UsageError(
                "the trainer is closed by what its own call asks, such as a schedule or a handler "
                "of a signal",
                hint="let the call return, and close it then",
            )
        with self._lock:
            before, self.is_over = self.is_over, True
            return not before

    def check(self) -> None:
        """Checks that it is not closed.

        Raises:
            UsageError: it is.
        """
        if self.is_over:
            raise UsageError("the trainer is closed", hint="make another: artifact.trainer()")

    def take(
        self, function: Callable[[], R], settle: Callable[[], None], *, steps: bool = False
    ) -> R:
        """Calls a function when no other thread has the trainer.

        Args:
            function: what is done; it may call the trainer again.
            settle: sets the threads of the pool of the thread that calls it, as the trainer wants
                them: when it is another one than before.
            steps: whether it takes steps: then it may not.

        Raises:
            UsageError: the trainer is taking steps in this very thread, or in another process, or
                is closed.
        """
        _PROCESS.check()
        self.check()
        if self._holder == threading.get_ident():
            return self._again(function)
        with self._lock:
            # Another thread may have closed it while this one waited for its turn.
            self.check()
            return _PROCESS.call(functools.partial(self._held, function, settle, steps))

    def _again(self, function: Callable[[], R]) -> R:
        if self._steps:
            raise UsageError(
                "the trainer is used while it takes a step",
                hint="a GPU asks for the next batch meanwhile: let what makes batches leave the "
                "trainer alone",
            )
        return function()

    def _held(self, function: Callable[[], R], settle: Callable[[], None], steps: bool) -> R:
        self._holder, self._steps = threading.get_ident(), steps
        try:
            if self._last != self._holder:
                self._last = self._holder
                settle()
            return function()
        finally:
            self._holder, self._steps = None, False


class HasTurns(Protocol):
    """The interface that `alone` needs of an object."""

    _turns: Turns

    def _settle(self) -> None: ...


def alone(
    method: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """A method that is called when no other thread has the trainer."""

    @functools.wraps(method)
    def called(self: HasTurns, *args: P.args, **kwargs: P.kwargs) -> R:
        call = functools.partial(method, self, *args, **kwargs)
        return self._turns.take(call, self._settle)

    return called
