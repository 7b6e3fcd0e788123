"""Compiles of a process are made one at a time.

TVM's builder of graphs is one for all threads of a process: of two threads that build, each would
get what the other has begun.
"""

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Turn:
    """Who builds; a process that was forked meanwhile has nobody who does."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        if register := getattr(os, "register_at_fork", None):
            register(after_in_child=self._begin)

    def _begin(self) -> None:
        self.lock = threading.RLock()


_TURN = _Turn()


def one_at_a_time(function: Callable[P, R]) -> Callable[P, R]:
    """A function for which other threads that call one of these wait; it may call them itself."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with _TURN.lock:
            return function(*args, **kwargs)

    return called
