"""Work that is shared by the cores of this machine."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def cores() -> int:
    """How many cores this process may use; of systems that do not say that, how many there are."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def side_by_side(work: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Does some work in as many threads as this process may use cores.

    Args:
        work: what lets go of Python for most of its time.
        items: each of them is worked on once.

    Returns:
        What became of each, in their order.

    Raises:
        Exception: the first that the work raised; what has not begun by then is left.
    """
    with ThreadPoolExecutor(min(len(items), cores()) or 1) as pool:
        return list(pool.map(work, items))
