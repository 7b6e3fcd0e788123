"""Work that is done ahead, on threads of its own, so that nobody waits for it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

# Decoding images and reading files let other threads of Python run.
_WORKERS = 2
_AHEAD = 4


def ahead(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """The results of work on items, in their order, a few of them before they are asked for.

    An error comes in its turn. Where nobody asks for more, what is under way is waited for.
    """
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="odtc-data")
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
