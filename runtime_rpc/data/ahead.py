"""Work that is done ahead, on threads of its own, so that nobody waits for it."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

# Decoding images and reading files let other threads of Python run.
_WORKERS = 2
_AHEAD = 4
_NAME = "odtc-data"


def ahead(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """The results of work on items, in their order, a few of them before they are asked for.

    An error comes in its turn. Where nobody asks for more, what is under way is waited for.
    """
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix=_NAME)
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Where an error held this generator, a worker's own allocation may collect it: that thread
        # cannot wait for itself.
        is_worker = threading.current_thread().name.startswith(_NAME)
        pool.shutdown(wait=not is_worker, cancel_futures=True)
