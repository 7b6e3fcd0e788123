"""The second request for an end is met even where C++ keeps Python from hearing of it.

Python's handlers run between two steps of its own code: during a call into a compiler, or a long
training step, no signal is seen. What is written into a pipe for each signal, before any handler, a
thread can read meanwhile.
"""

import os
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from odtc.cli.interrupts import ENDS, StopRequest
from odtc.core.disk.left_behind import remove_all

# What the main thread has, to end by itself, after the second request.
_GRACE_SECONDS = 2.0


@contextmanager
def second_request_ends() -> Iterator[None]:
    """A block during which the second request ends the process, if the block does not end itself.

    Signals that are ignored stay so. Only the main thread of Python can have such a block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [number for number in ENDS if callable(signal.getsignal(number))]
    reading, writing = os.pipe()
    if hasattr(os, "set_blocking"):  # Python 3.11 has none on Windows, which does not ask for it
        os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    over = threading.Event()
    threading.Thread(target=_listen, args=(reading, heard, over), daemon=True).start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(writing)


def _listen(reading: int, heard: Collection[int], over: threading.Event) -> None:
    """Reads the numbers of signals until the pipe's other end is closed."""
    asked = StopRequest()
    while numbers := os.read(reading, 64):
        for number in numbers:
            first = not asked.number
            if number in heard and asked.note(number) and not first:
                _end(over, ENDS[number][0])
    os.close(reading)


def _end(over: threading.Event, code: int) -> None:
    """Ends the process, unless the block ends before."""
    if not over.wait(_GRACE_SECONDS):
        remove_all()
        os._exit(code)
