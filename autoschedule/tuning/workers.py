"""Processes that stay alive and answer one request after the other.

Kernels are compiled and run by these: a fault of LLVM's, or of a kernel that was never run before,
ends a worker only. A new one takes its place, and the request has a reason.

None outlives the process that asks: it ends when that has closed its pipe, or was killed, whatever
it is doing, and removes its temporary files first.
"""

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from odtc.core.disk.left_behind import remove_all
from odtc.core.errors import UnsupportedError
from odtc.core.process.without_torch import leave_out_torch

# Seconds in which a process that closed its pipe ends.
_TO_END = 1.0
# What the processes need of a system, to be ended and to end; Windows lacks it.
_NEEDED = ((signal, "SIGHUP"), (signal, "SIGKILL"), (select, "poll"))
# Makes, in the process, the function that answers requests.
Start = Callable[[], Callable[[Any], Any]]


@dataclass(frozen=True)
class Failed:
    """A request that has no answer.

    Attributes:
        reason: why.
    """

    reason: str


def check_system() -> None:
    """Checks that such processes can be had here.

    Raises:
        UnsupportedError: the system lacks what they need.
    """
    missing = [f"{it.__name__}.{name}" for it, name in _NEEDED if not hasattr(it, name)]
    if missing:
        raise UnsupportedError(
            "kernels are compiled and measured by processes that this system cannot watch over: "
            f"it has no {', '.join(missing)}",
            where="odtc tune",
            hint="tune on Linux, in WSL too, by the same command, with --devices for a phone; "
            "`odtc db export` writes what was found there, and `odtc db merge FILE` takes it here, "
            "for odtc compile",
        )


class Workers:
    """A pool of equal processes.

    Args:
        start: called first in each; picklable, as requests and answers must be.
        count: of processes.
        seconds: that an answer may take.
    """

    def __init__(self, start: Start, count: int, seconds: float) -> None:
        self._start, self._seconds = start, seconds
        self._processes = [_Process(start) for _ in range(count)]

    def answers(self, requests: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Numbers of requests with their answers, as they come; `Failed` where there is none."""
        left = deque(enumerate(requests))
        busy: dict[Connection, tuple[int, int, float]] = {}
        while left or busy:
            for place, process in enumerate(self._processes):
                if left and process.pipe not in busy:
                    number, request = left.popleft()
                    with contextlib.suppress(OSError):  # it has ended, as its answer will say
                        process.pipe.send(request)
                    busy[process.pipe] = (place, number, time.monotonic() + self._seconds)
            soonest = min(until for _, _, until in busy.values())
            wait(list(busy), max(0.0, soonest - time.monotonic()))
            for pipe, (place, number, until) in list(busy.items()):
                if pipe.poll():
                    answer = self._received(place)
                elif time.monotonic() >= until:
                    answer = Failed(f"it took more than {self._seconds:g} s")
                    self._replace(place)
                else:
                    continue
                del busy[pipe]
                yield number, answer

    def all(self, requests: Sequence[Any]) -> list[Any]:
        """The answers in the order of their requests."""
        return [answer for _, answer in sorted(self.answers(requests), key=lambda each: each[0])]

    def _received(self, place: int) -> Any:
        process = self._processes[place]
        try:
            return process.pipe.recv()
        except (EOFError, OSError):
            return Failed(self._replace(place))

    def _replace(self, place: int) -> str:
        """Ends a process, replaces it, and returns how it ended."""
        said = self._processes[place].end()
        self._processes[place] = _Process(self._start)
        return said

    def close(self) -> None:
        """Ends all processes."""
        for process in self._processes:
            process.pipe.close()
        for process in self._processes:
            process.end()


class _Process:
    """One process, and the pipe to it."""

    def __init__(self, start: Start) -> None:
        # Not forked: TVM's threads would be missing in a copy of this process.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        # Pickled here: its imports take seconds, in which the pipe must be watched already.
        begin = pickle.dumps(start)
        self._process = context.Process(target=_serve, args=(begin, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def end(self) -> str:
        """Ends it; returns how it ended, if it did so by itself."""
        self.pipe.close()
        self._process.join(_TO_END)
        code = self._process.exitcode
        self._process.kill()
        self._process.join()
        if code is None or code >= 0:
            return "the process ended"
        return f"the process was ended by {signal.Signals(-code).name}"


def _serve(begin: bytes, pipe: Connection) -> None:
    """Answers requests until the other end of the pipe is closed.

    Args:
        begin: a pickled `Start`.
        pipe: to the process that asks.
    """
    # Ctrl-C and the end of a terminal are for the process that asks; with it goes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(pipe.fileno(),), daemon=True).start()
    leave_out_torch()
    start: Start = pickle.loads(begin)  # noqa: S301 - it is of this process's parent
    with contextlib.suppress(EOFError, OSError):
        answer = None
        while True:
            request = pipe.recv()
            try:
                answer = answer or start()
                result = answer(request)
            except Exception as error:  # it is the reason of a trial that failed
                result = Failed(_said(error))
            pipe.send(result)


def _end_with(pipe: int) -> None:
    """Ends this process when the other end of its pipe is closed: a kernel may take minutes."""
    poll = select.poll()
    poll.register(pipe, 0)
    poll.poll()
    remove_all()
    os._exit(0)


def _said(error: Exception) -> str:
    """The last meaningful line of an error: TVM's are whole stacks of C++."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:200] if lines else ''}"
