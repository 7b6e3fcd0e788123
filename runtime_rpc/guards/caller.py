"""One thread that makes the calls of others, for as long as these live.

Python's own pool takes nothing more once the main thread has come to its end, though other threads
may go on, and Python waits for them.
"""

import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

R = TypeVar("R")
_Item = tuple[Future[Any], Callable[[], Any]]


class Caller:
    """A thread that makes calls, one after the other.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        self._lock, self._is_over = threading.Lock(), False
        # Python does not wait for it: it ends when all threads that are waited for have.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def call(self, function: Callable[[], R]) -> R:
        """Calls a function in the thread; returns or raises what it does."""
        future: Future[R] = Future()
        if self._is_put((future, function)):
            return future.result()
        # The process is at its end: a handler of it calls, and what is left behind goes with it.
        return function()

    def _is_put(self, item: _Item) -> bool:
        with self._lock:
            if not self._is_over:
                self._items.put(item)
            return not self._is_over

    def _serve(self) -> None:
        while (item := self._items.get()) is not None:
            _make(*item)
            del item  # with what it holds, such as a trainer

    def _end(self) -> None:
        """Lets the thread end: one that computes while the process is taken down would crash it."""
        if not self._thread.is_alive():  # a fork has none, and its lock may be held for ever
            return
        with self._lock:
            self._is_over = True
        self._items.put(None)
        self._thread.join()


def _make(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
        del future, function  # the error's traceback holds this frame
