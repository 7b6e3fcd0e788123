"""What happens to a test while it is at work."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def as_soon_as(is_so: Callable[[], object], strike: Callable[[], object]) -> Iterator[None]:
    """A block within which a thread does something, as soon as something is so.

    Not if the block ends before: a test that failed so early would wait for that for ever.
    """
    over = threading.Event()

    def wait() -> None:
        while not is_so():
            if over.wait(0.005):
                return
        strike()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
