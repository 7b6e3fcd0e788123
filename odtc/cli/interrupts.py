"""Signals that ask for an end, noted before they do anything else: Ctrl-C, SIGTERM and SIGHUP."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

from odtc.core.errors import ExitCode

# Each with its exit code, 128 and its number, and how people are told.
ENDS: dict[int, tuple[ExitCode, str]] = {
    signal.SIGINT: (ExitCode.INTERRUPTED, "interrupted"),
    signal.SIGTERM: (ExitCode.TERMINATED, "terminated"),
}
if hasattr(signal, "SIGHUP"):  # Windows has none
    ENDS[signal.SIGHUP] = (ExitCode.HUNG_UP, "hung up")
# One request may come as several signals: `timeout` sends SIGTERM to the process and to its group,
# a shell hands on the SIGHUP that the kernel sent already. A person who presses Ctrl-C twice means
# it.
SAME_REQUEST_SECONDS = 1.0


@dataclass
class StopRequest:
    """A request to stop, once a signal has made one.

    Attributes:
        number: of the first signal that did; 0 before.
        at: when it came, by the monotonic clock.
    """

    number: int = 0
    at: float = 0.0

    def note(self, number: int) -> bool:
        """Notes a signal; whether it is a request of its own, and not more of the last one."""
        now = time.monotonic()
        if not self.number:
            self.number, self.at = number, now
            return True
        return number == signal.SIGINT or now - self.at >= SAME_REQUEST_SECONDS

    @property
    def code(self) -> ExitCode:
        """The exit code of that end."""
        return ENDS[self.number or signal.SIGINT][0]

    @property
    def word(self) -> str:
        """The word for that end."""
        return ENDS[self.number or signal.SIGINT][1]


@contextmanager
def held() -> Iterator[None]:
    """A block at the end of which come the signals that ask for an end; Windows holds none."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruption(*, at_once: bool, asked: StopRequest | None = None) -> Iterator[StopRequest]:
    """Yields what notes the first signal that asks for an end.

    A process that was started to ignore one, as by `nohup`, goes on to do so, and only the main
    thread of Python can take them.

    Args:
        at_once: the first signal also raises KeyboardInterrupt; otherwise only the second one does.
        asked: what notes it, for who wants to know of one that comes before the block.
    """
    asked, before = asked or StopRequest(), {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in ENDS}
        before = {n: each for n, each in handlers.items() if each not in (signal.SIG_IGN, None)}
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def note(number: int, frame: FrameType | None) -> None:
        first = not asked.number
        is_request = asked.note(number)
        _leave(terminals)
        if is_request and (at_once or not first):
            _hand_on(before[number], number, frame)

    try:
        for number in before:
            signal.signal(number, note)
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _hand_on(handler: Any, number: int, frame: FrameType | None) -> None:
    """Lets who had the signal before take it; ends what goes on in any case."""
    if callable(handler):
        handler(number, frame)
    raise KeyboardInterrupt


def _leave(terminals: Sequence[int]) -> None:
    """Lets what is printed go nowhere if the terminal is gone: to write to it is an error now."""
    for number in terminals:
        if not os.isatty(number):
            with suppress(OSError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, number)
                os.close(nowhere)
