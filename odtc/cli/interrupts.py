"""Ctrl-C, noted before it does anything else."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interruption(*, at_once: bool) -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C sets.

    A process that was started to ignore interrupts goes on to do so, and only the main thread of
    Python can take them.

    Args:
        at_once: the first Ctrl-C also raises KeyboardInterrupt; otherwise only the second one does.
    """
    event = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or not callable(before):
        yield event
        return

    def note(number: int, frame: FrameType | None) -> None:
        first = not event.is_set()
        event.set()
        if at_once or not first:
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
