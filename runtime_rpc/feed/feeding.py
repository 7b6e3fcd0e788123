"""Sends a step what it is fed, the next batch while one is computed.

A device that computes on its own, as a GPU does, has two sets of tensors: a call reads one of them
while the other is filled. So neither the copy nor what the host does for the next batch keeps it
waiting.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np

from odtc.core.specs import Argument
from odtc.runtime_rpc.sessions.session import Session

# What one call is fed.
Part = Mapping[Argument, np.ndarray]
# TVM's tensors.
Tensors = dict[Argument, Any]
T = TypeVar("T")


class _Set:
    """A tensor for each argument that is fed, and what gives it its elements."""

    def __init__(self, session: Session, tensors: Tensors) -> None:
        self.tensors = dict(tensors)
        self.write = {item: session.writer(tensor) for item, tensor in tensors.items()}


class Feeder:
    """The tensors of a device that hold what a call is fed.

    Args:
        session: of the device.
        tensors: one for each argument that is fed.
    """

    def __init__(self, session: Session, tensors: Tensors) -> None:
        self._session = session
        self._now = _Set(session, tensors)
        self._next: _Set | None = None
        self._ahead: Part | None = None

    def take(self, part: Part) -> Tensors:
        """The tensors that hold a part, which is sent now unless it was sent ahead.

        They are the same mapping as long as they are the same tensors.
        """
        if self._next and part is self._ahead:
            self._now, self._next = self._next, self._now
            self._ahead = None
            return self._now.tensors
        return self.put(part)

    def put(self, part: Part) -> Tensors:
        """The same, of what no other call was sent ahead."""
        for item, array in part.items():
            self._now.write[item](array)
        return self._now.tensors

    def send_ahead(self, part: Part) -> None:
        """Sends what the next call will take, into tensors that no call reads yet."""
        if self._next is None:
            self._next = _Set(self._session, self._like(self._now.tensors))
        self._ahead = None
        for item, array in part.items():
            self._session.send_ahead(self._next.tensors[item], array)
        self._ahead = part

    def _like(self, tensors: Tensors) -> Tensors:
        import tvm

        device = self._session.device
        return {i: tvm.runtime.empty(t.shape, str(t.dtype), device) for i, t in tensors.items()}


class Upcoming(Generic[T]):
    """Items of an iterator, the next of which can be looked at; its errors come in their turn."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._looked: list[T] = []
        self._error: Exception | None = None

    def look(self) -> T | None:
        """The next item; None where there is none, or it failed."""
        if not self._looked and self._error is None:
            try:
                self._looked += islice(self._items, 1)
            except Exception as error:
                self._error = error
        return self._looked[0] if self._looked else None

    def take(self, most: int = 1) -> list[T]:
        """The next items, none after the last one; fewer where one of them failed.

        Raises:
            Exception: what making the first of them raised.
        """
        items: list[T] = []
        while len(items) < most and (item := self.look()) is not None:
            items.append(item)
            self._looked.clear()
        if self._error is not None and not items:
            raise self._error
        return items
