"""Runs a function over many cases in worker processes.

A case may crash its process, hang it, or ask for more memory than there is: that is then the
case's outcome, the worker is replaced, and the run goes on. A hang is seen by processor time, so
that a busy machine is not taken for one; the bound on the clock only ends what sleeps.
"""

import multiprocessing
import os
import pickle
import resource
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import psutil

from odtc.core.process.without_torch import leave_out_torch

_SPAWN = multiprocessing.get_context("spawn")
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Limits:
    """Limits of one case.

    Attributes:
        processor_seconds: time on the processor.
        wall_seconds: time on the clock.
        memory: bytes of address space of a worker.
        cases: a worker is replaced after so many, so that what they leave behind does not add up.
    """

    processor_seconds: float = 10.0
    wall_seconds: float = 120.0
    memory: int = 8 << 30
    cases: int = 200


@dataclass(frozen=True)
class Ended:
    """How a case ended.

    Attributes:
        case: what the function was given.
        result: what it returned.
        failure: why it did not return; empty where it did.
        seconds: processor time.
    """

    case: Any
    result: Any = None
    failure: str = ""
    seconds: float = 0.0


@dataclass
class _Worker:
    function: Callable[[Any], Any]
    limits: Limits
    case: Any = None
    done: int = 0
    started: float = 0.0
    used: float = 0.0
    process: Any = field(init=False)
    pipe: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.pipe, far = _SPAWN.Pipe()
        arguments = (pickle.dumps(self.function), far, self.limits.memory)
        self.process = _SPAWN.Process(target=_serve, args=arguments, daemon=True)
        self.process.start()
        far.close()
        # The worker says when its imports are done: they are no part of a case's time.
        if not self.pipe.poll(self.limits.wall_seconds):
            raise RuntimeError("a worker did not start")
        self.pipe.recv()

    def begin(self, case: Any) -> None:
        self.case, self.started, self.used = case, time.monotonic(), self._processor_seconds()
        self.done += 1
        self.pipe.send(case)

    def ended(self) -> Ended | None:
        """How its case ended; None while it runs."""
        used = self._processor_seconds() - self.used
        try:
            if self.pipe.poll():
                result, failure = self.pipe.recv()
                return Ended(self.case, result, failure, used)
        except (EOFError, ConnectionResetError):
            self.process.join()
            return Ended(self.case, failure=f"crash: {_died_of(self.process.exitcode)}")
        if used > self.limits.processor_seconds:
            return Ended(self.case, failure=f"hang: more than {used:.0f} s of processor time")
        waited = time.monotonic() - self.started
        if waited > self.limits.wall_seconds:
            return Ended(self.case, failure=f"hang: {waited:.0f} s, {used:.0f} s on the processor")
        return None

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def is_spent(self, ended: Ended) -> bool:
        dead = ended.failure.startswith(("crash", "hang"))
        return dead or self.done >= self.limits.cases

    def _processor_seconds(self) -> float:
        try:
            times = psutil.Process(self.process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return self.used
        return times.user + times.system


def run_cases(
    function: Callable[[Any], Any],
    cases: Iterable[Any],
    *,
    workers: int | None = None,
    limits: Limits | None = None,
) -> Iterator[Ended]:
    """Yields how each case ended, in the order in which they do.

    Args:
        function: of a module, so that a worker can import it; its module is imported once.
        cases: what it is called with; each must pickle, and so must what it returns.
        workers: processes; by default as many as there are cores, at most 8.
        limits: of each case.
    """
    limits = limits or Limits()
    queue = deque(cases)
    count = min(workers or len(os.sched_getaffinity(0)), 8, len(queue))
    pool = [_Worker(function, limits) for _ in range(count)]
    try:
        for worker in pool:
            worker.begin(queue.popleft())
        while pool:
            wait([worker.pipe for worker in pool], timeout=_POLL_SECONDS)
            for place, worker in reversed(list(enumerate(pool))):
                ended = worker.ended()
                if ended is None:
                    continue
                if queue and worker.is_spent(ended):
                    worker.stop()
                    pool[place] = _Worker(function, limits)
                if queue:
                    pool[place].begin(queue.popleft())
                else:
                    pool.pop(place).stop()
                yield ended
    finally:
        for worker in pool:
            worker.stop()


def _serve(pickled: bytes, pipe: Connection, memory: int) -> None:
    """The life of a worker of a pickled function. What TVM and ONNX print goes nowhere."""
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silent, stream)
    leave_out_torch()
    function: Callable[[Any], Any] = pickle.loads(pickled)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe.send("ready")
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        try:
            answer = (function(case), "")
        except Exception:
            answer = (None, "raised: " + traceback.format_exc(limit=-6))
        pipe.send(answer)


def _died_of(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"
