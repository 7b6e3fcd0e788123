"""Ctrl-C does not come between what a trainer holds and what it says of that.

Python raises KeyboardInterrupt wherever its main thread is: after a step that has changed the
weights, but before it is counted, or between two tensors of a checkpoint that is loaded. A notebook
goes on with such a trainer.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Within the block the first SIGINT waits for its end; a second one does not.

    Signals come to the main thread alone, and where the process ignores them, or ends by them,
    there is nothing to keep them for.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    waiting: list[FrameType | None] = []

    def note(number: int, frame: FrameType | None) -> None:
        if waiting:
            handler(number, frame)
        waiting.append(frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if waiting:
            handler(signal.SIGINT, waiting[0])
