"""Gives a call of TVM's what it is fed, and looks at the batch after it."""

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


class Feeder:
    """The tensors of a device that hold what a call is fed.

    Args:
        session: of the device.
        tensors: one for each argument that is fed.
    """

    def __init__(self, session: Session, tensors: Tensors) -> None:
        self._tensors = dict(tensors)
        self._write = {item: session.writer(tensor) for item, tensor in tensors.items()}

    def put(self, part: Part) -> Tensors:
        """The tensors, which hold a part then: the same mapping each time."""
        for item, array in part.items():
            self._write[item](array)
        return self._tensors


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
